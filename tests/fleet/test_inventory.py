"""The inventory: what it refuses, and in which words; how a machine's Python is called."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from edgebench.errors import FleetError
from edgebench.fleet.session import Inventory, load_inventory

GOOD = """
schema = 1
lost_after = "1min"
[hosts.pi-1]
ssh = "pi@192.0.2.21"
python = "sudo -n '/opt/my venv/bin/python'"
[hosts.pi-2]
ssh = "pi@192.0.2.22"
"""


def inventory_of(folder: Path, text: str) -> Inventory:
    path = folder / "fleet.toml"
    path.write_text(text)
    return load_inventory(path)


def test_ssh_gets_one_quoted_command(tmp_path: Path):
    found = inventory_of(tmp_path, GOOD)
    assert found.lost_after_s == 60
    command = found.hosts["pi-1"].command("x y", "5")
    assert (command[0], command[-3:-1]) == ("ssh", ["--", "pi@192.0.2.21"])
    words = shlex.split(command[-1])
    assert words[:5] == ["exec", "sudo", "-n", "/opt/my venv/bin/python", "-c"]
    assert words[-3:] == ["", "x y", "5"]


@pytest.mark.promise("A fleet's inventory names no program that runs at the controller.")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("python =", "pyton ="), "did you mean 'python'?"),
        (("schema = 1", "schema = 2"), "schema: 2 should be 1"),
        (("[hosts.pi-2]", "[hosts.pi-1]"), "not TOML"),
        (("[hosts.pi-2]", "[hosts.Pi]"), "'Pi' can't be a host"),
        (("1min", "1s"), "should be greater than or equal to 2"),
        (("pi@192.0.2.22", "-oProxyCommand=touch"), "is no machine"),
        (("pi@192.0.2.22", "pi 192.0.2.22"), "is no machine"),
        (("sudo -n '", "sudo -n "), "No closing quotation"),
    ],
)
def test_faults_say_what_where_and_how_to_correct(
    tmp_path: Path, change: tuple[str, str], words: str
):
    with pytest.raises(FleetError) as refused:
        inventory_of(tmp_path, GOOD.replace(*change))
    assert words in str(refused.value)
    assert refused.value.remedy
    assert "fleet.toml" in str(refused.value.where)
