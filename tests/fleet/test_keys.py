"""The keys that a fleet has: made once, its owner's alone, or those that the inventory names."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from edgebench.errors import FleetError, UnsafePathError
from edgebench.fleet.inventory import Inventory, TlsKeys
from edgebench.fleet.keys import fleet_folder, make_keys, tls_files


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
