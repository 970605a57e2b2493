"""The keys that a fleet has: made once, its owner's alone, or those that the inventory names."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgebench.errors import FleetError, UnsafePathError
from edgebench.fleet.inventory import Inventory, TlsKeys
from edgebench.fleet.keys import fleet_folder, make_keys, tls_files, tls_texts
from edgebench.fleet.startup import start_workers
from tests.trust.stranger import STRANGER


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for what is kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def inventory(**keys: Any) -> Inventory:
    """One of a single machine."""
    return Inventory.model_validate({"schema": 1, "hosts": {"one": {"local": True}}, **keys})


@pytest.mark.process
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_a_key_is_made_once_for_its_owner_alone(state: Path):
    """One file has key and certificate; it stays as it is, and another fleet has another."""
    one, other = inventory(), inventory(name="lab")
    make_keys(one)
    file = Path(tls_files(one).key)
    made = file.read_text()
    assert file.is_relative_to(state)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert made.count("PRIVATE KEY-----") == made.count("CERTIFICATE-----") == 2
    make_keys(one)
    make_keys(other)
    assert file.read_text() == made != Path(tls_files(other).key).read_text()


def test_keys_that_the_inventory_names_are_taken(state: Path):
    """None is made."""
    named = {"ca": "/a/ca.pem", "cert": "/a/cert.pem", "key": "/a/key.pem"}
    make_keys(inventory(tls=named))
    assert tls_files(inventory(tls=named)) == TlsKeys(**named)
    assert not list(state.rglob("*.pem"))


@pytest.mark.process
def test_without_openssl_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch):
    """Keys of one's own do without it."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FleetError, match="openssl") as refused:
        make_keys(inventory())
    assert "[tls]" in str(refused.value.remedy)


def test_a_folder_that_others_can_change_is_refused(state: Path):
    """Who could put a key there could give orders."""
    (state / "edgebench" / "fleet").mkdir(parents=True)
    (state / "edgebench").chmod(0o777)
    with pytest.raises(UnsafePathError, match="other users can write"):
        fleet_folder()
    (state / "edgebench").chmod(0o700)
    assert fleet_folder().stat().st_uid == os.geteuid()


@pytest.fixture
def callers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the user who called sudo."""
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    monkeypatch.setenv("SUDO_GID", str(STRANGER))
    with tempfile.TemporaryDirectory(prefix="trust-", dir="/var/tmp") as name:
        Path(name).chmod(0o711)
        own = Path(name) / "own"
        own.mkdir()
        os.chown(own, STRANGER, STRANGER)
        yield own


@pytest.mark.root
@pytest.mark.promise("Under sudo a fleet's inventory makes root read no file for its owner.")
def test_keys_are_read_with_the_callers_rights(callers: Path):
    """What only root may read is refused, also through a link; what the caller may is read."""
    for name, user in (("own.pem", STRANGER), ("roots.pem", 0)):
        file = callers.parent / name
        file.write_text("secret")
        file.chmod(0o600)
        os.chown(file, user, user)
    (callers / "link.pem").symlink_to(callers.parent / "roots.pem")
    own, roots = str(callers.parent / "own.pem"), str(callers.parent / "roots.pem")
    texts = tls_texts(inventory(tls=dict.fromkeys(("ca", "cert", "key"), own)))
    assert set(texts.values()) == {"secret"}
    for key in (roots, str(callers / "link.pem"), "/dev/zero"):
        with pytest.raises(FleetError, match="can't be read") as refused:
            tls_texts(inventory(tls={"ca": own, "cert": own, "key": key}))
        assert refused.value.where == key


@pytest.mark.root
@pytest.mark.usefixtures("callers")
@pytest.mark.promise("Under sudo a fleet's inventory names no program that root starts.")
def test_no_python_of_the_callers_is_started_as_root(tmp_path: Path):
    """It is refused before it is started, with what to write."""
    made = inventory(hosts={"one": {"local": True, "python": str(tmp_path / "python")}})
    (start,) = start_workers(made, ["one"], lambda _: None)
    assert "as root" in start.says
    assert "leave python out" in str(start.remedy)
