"""The inventory: what it refuses, and in which words; how a machine's Python is called."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from edgebench.errors import InventoryError
from edgebench.fleet.inventory import Inventory, load_inventory

GOOD = """
schema = 1
name = "lab"
scheduler = "tls://192.0.2.5:8786"
[hosts.pi-1]
ssh = "pi@192.0.2.21"
python = "/opt/my venv/bin/python"
labels = ["pi4"]
[hosts.pi-2]
ssh = "pi@192.0.2.22"
labels = ["pi4", "sd"]
[hosts.old-box]
"""


def inventory_of(folder: Path, text: str) -> Inventory:
    """The inventory of a file with this text."""
    path = folder / "fleet.toml"
    path.write_text(text)
    return load_inventory(path)


def test_a_whole_inventory_is_read(tmp_path: Path):
    """Names and labels are as written; a machine without ssh is started by somebody else."""
    found = inventory_of(tmp_path, GOOD)
    assert found.labelled("pi4") == ["pi-1", "pi-2"]
    assert [host.started for host in found.hosts.values()] == [True, True, False]
    assert (found.host, found.port) == ("192.0.2.5", 8786)


def test_ssh_gets_one_quoted_command(tmp_path: Path):
    """OpenSSH hands its words to a shell there: a path with a space stays one word."""
    command = inventory_of(tmp_path, GOOD)
    host = command.hosts["pi-2"].command("x y")
    assert host[0] == "ssh"
    assert host[-2] == "pi@192.0.2.22"
    words = shlex.split(host[-1])
    assert (words[:2], words[-2:]) == (["python3", "-c"], ["", "x y"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("pi@192.0.2.22", "pi@192.0.2.21"), "pi-1 and pi-2 are the same machine"),
        (("tls://192.0.2.5:8786", "tls://127.0.0.1:8786"), "can't reach a scheduler at 127.0.0.1"),
        (("tls://192.0.2.5:8786", "192.0.2.5"), "is no address"),
        (("tls://192.0.2.5:8786", "tcp://192.0.2.5:8786"), "is no address with TLS"),
        (("tls://192.0.2.5:8786", "tls://0.0.0.0:8786"), "is every address"),
        (("python =", "pyton ="), "did you mean 'python'?"),
        (("python =", "local = true\npython ="), "ssh and local can't both be given"),
        (('"pi4", "sd"', '"Pi 4"'), "can't be a label"),
        (("schema = 1", "schema = 2"), "this edgebench reads schema 1"),
        (("[hosts.pi-2]", "[hosts.pi-1]"), "not TOML"),
        (('name = "lab"', 'heartbeat = "2min"'), "three times heartbeat"),
        (("pi@192.0.2.22", "-oProxyCommand=touch"), "is no machine"),
    ],
)
def test_faults_say_what_where_and_how_to_correct(
    tmp_path: Path, change: tuple[str, str], words: str
):
    """Each fault is named in words, with the file; nothing is started with a wrong inventory."""
    with pytest.raises(InventoryError) as refused:
        inventory_of(tmp_path, GOOD.replace(*change))
    assert words in str(refused.value)
    assert refused.value.remedy
    assert "fleet.toml" in str(refused.value.where)


def test_an_unknown_label_names_the_known(tmp_path: Path):
    """Who asks for a label that no machine has reads those that there are."""
    with pytest.raises(InventoryError) as refused:
        inventory_of(tmp_path, GOOD).labelled("jetson")
    assert "pi4, sd" in str(refused.value.remedy)
