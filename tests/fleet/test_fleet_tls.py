"""A fleet whose connections are encrypted, with keys of openssl's: who has none stays outside."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fleet.test_fleet import Fleet, once_each

distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.own_cgroup,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl"),
]
#: `scheduler` is a key of the inventory's top, so its table comes after it.
KEYS = """
[tls]
ca = "ca.pem"
cert = "cert.pem"
key = "key.pem"
"""
HOSTS = """
[hosts.one]
local = true
[hosts.two]
local = true
"""


def openssl(folder: Path, *words: str) -> None:
    """One command of it in the folder."""
    subprocess.run(["openssl", *words], cwd=folder, capture_output=True, check=True)


def make_keys(folder: Path) -> None:
    """An authority of the test's own, and one key for all machines, which it signed."""
    new = ("-newkey", "rsa:2048", "-nodes", "-subj")
    authority = ("-keyout", "ca.key", "-out", "ca.pem", "-days", "2")
    openssl(folder, "req", "-x509", *new, "/CN=authority", *authority)
    openssl(folder, "req", *new, "/CN=fleet", "-keyout", "key.pem", "-out", "asked.csr")
    signer = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
    openssl(folder, "x509", "-req", "-in", "asked.csr", "-out", "cert.pem", *signer)


def test_only_who_has_a_key_gets_in(tmp_path: Path) -> None:
    """Each machine runs the sweep over TLS; a connection without a key is refused."""
    make_keys(tmp_path)
    fleet = Fleet(tmp_path, hosts=KEYS + HOSTS)
    inventory = tmp_path / "fleet.toml"
    inventory.write_text(inventory.read_text().replace("tcp://", "tls://"))
    fleet.ask("up")
    try:
        assert {one["worker"][:6] for one in fleet.states().values()} == {"tls://"}
        fleet.ask("run", fleet.scenario("secret", 1, 0.1))
        assert all(once_each(fleet.lines(name, "secret"), 3) for name in ("one", "two"))
        with pytest.raises(OSError):  # noqa: PT011 - which one depends on the version
            distributed.Client(f"tcp://127.0.0.1:{fleet.port}", timeout=3)
    finally:
        fleet.end()
