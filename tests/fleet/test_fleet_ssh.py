"""A fleet over real SSH: OpenSSH's client, and three servers, each with a boot of its own.

The kernel is one, so no time means anything; that a stranger's three boards come up, are told what
keeps them out, and share a sweep when one of them dies, does.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.conftest import Gate
from tests.fleet.test_fleet import Fleet, is_alive, once_each, unused_port

pytest.importorskip("distributed")
_NEEDED = ("ssh", "ssh-keygen", "ssh-keyscan", "dropbear", "dropbearkey", "unshare")
_MISSING = [name for name in _NEEDED if shutil.which(name) is None]


def can_mount() -> bool:
    """Whether a board can have mounts of its own here."""
    if "unshare" in _MISSING:
        return False
    command = ["unshare", "--mount", "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


pytestmark = [
    pytest.mark.own_cgroup,
    # Each board's doctor tries swap for a moment.
    pytest.mark.exclusive,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(_MISSING), reason=f"needs {', '.join(_MISSING)}"),
    pytest.mark.skipif(not can_mount(), reason="needs root: a board has mounts of its own"),
]
NAMES = ("one", "two", "three")
#: A board's own account files and boot, seen by its server and all that it starts.
_BOARD = """
mount --bind "$1/passwd" /etc/passwd
mount --bind "$1/boot_id" /proc/sys/kernel/random/boot_id
exec dropbear -F -E -e -m -s -p "$2" -r "$1/host" -P "$1/server.pid"
"""


class Board:
    """An SSH server with a home, keys and a boot of its own."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.address = folder, address
        self.port = unused_port(address)
        home = folder / "home"
        self.keys = home / ".ssh" / "authorized_keys"
        self.keys.parent.mkdir(parents=True)
        for path in (home, self.keys.parent):
            path.chmod(0o700)
        (folder / "boot_id").write_text(f"{uuid.uuid4()}\n")
        user = pwd.getpwuid(0)
        shell = shutil.which("bash")
        (folder / "passwd").write_text(f"{user.pw_name}:x:0:0::{home}:{shell}\n")
        made = ["dropbearkey", "-t", "ed25519", "-f", str(folder / "host")]
        subprocess.run(made, check=True, capture_output=True)
        words = ["unshare", "--mount", "sh", "-c", _BOARD, "sh", str(folder)]
        with (folder / "server.log").open("ab") as log:
            self.server = subprocess.Popen(
                [*words, f"{address}:{self.port}"],
                stdout=log,
                stderr=log,
                env={**os.environ, "HOME": str(home), "EDGEBENCH_CACHE": str(folder / "cache")},
            )

    def known(self) -> str:
        """Its line for ``known_hosts``, once it answers."""
        command = ["ssh-keyscan", "-t", "ed25519", "-p", str(self.port), self.address]
        ends = time.monotonic() + 240
        while time.monotonic() < ends:
            said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
            if said:
                return said
            time.sleep(0.1)
        raise AssertionError((self.folder / "server.log").read_text())

    def configured(self, name: str) -> str:
        """What a person's ``~/.ssh/config`` says of it."""
        return f"Host {name}\n  HostName {self.address}\n  Port {self.port}\n  User root\n"


class SshFleet(Fleet):
    """A fleet whose machines are reached by names of an SSH configuration."""

    def __init__(self, folder: Path) -> None:
        hosts = "".join(
            f'[hosts.{name}]\nssh = "{name}"\npython = "{sys.executable}"\nlabels = ["vm"]\n'
            for name in NAMES
        )
        # An address of this computer that the boards can be thought to reach.
        super().__init__(folder, "127.0.0.2", hosts)
        self.known_hosts, key = folder / "known_hosts", folder / "key"
        made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
        subprocess.run(made, check=True)
        self.key = key.with_suffix(".pub").read_text()
        self.boards = {
            name: Board(folder / name, f"127.0.0.{number}")
            for number, name in enumerate(NAMES, start=3)
        }
        common = f"IdentityFile {key}\nIdentitiesOnly yes\nUserKnownHostsFile {self.known_hosts}\n"
        config = folder / "ssh_config"
        config.write_text(
            common + "".join(one.configured(name) for name, one in self.boards.items())
        )
        # OpenSSH takes the configuration from the account's home, whatever HOME says.
        client = folder / "bin" / "ssh"
        client.parent.mkdir()
        client.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {config} "$@"\n')
        client.chmod(0o755)
        self.environment["PATH"] = f"{client.parent}:{os.environ['PATH']}"

    def let_in(self, *names: str) -> None:
        """What a person does once for each board: accept its key, and give it ours."""
        for name in names:
            self.boards[name].keys.write_text(self.key)
        self.known_hosts.write_text("".join(self.boards[name].known() for name in names))

    def end(self) -> None:
        """Nothing of it stays."""
        super().end()
        for board in self.boards.values():
            board.server.kill()
            board.server.wait()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshFleet]:
    """Three boards, of which nobody has logged in to any yet."""
    made = SshFleet(tmp_path_factory.mktemp("ssh"))
    yield made
    made.end()


def test_a_board_that_asks_a_question_is_named_with_what_answers_it(fleet: SshFleet):
    """An unknown host's key and a key that isn't let in are two remedies; a good board is up."""
    fleet.let_in("one")
    with fleet.known_hosts.open("a") as known:
        known.write(fleet.boards["two"].known())
    said = fleet.ask("up", code=1)
    assert "1 of 3 machines are up" in said.stdout
    problems = said.stderr.partition("two: not reached")[2]
    assert "Permission denied" in problems
    assert "ssh-copy-id two" in problems.partition("three: not reached")[0]
    assert "Host key verification failed" in problems.partition("three: not reached")[2]
    assert "log in once by hand, and answer its question: ssh three" in problems


def test_three_boards_run_a_sweep_each_and_are_compared(fleet: SshFleet):
    """The how-to's way: up, doctor, run, and one table of all devices."""
    fleet.let_in(*NAMES)
    assert "3 of 3 machines are up" in fleet.ask("up").stdout
    found = json.loads(fleet.ask("doctor", "--json").stdout)["machines"]
    assert all(found[name]["fit"] for name in NAMES)
    fleet.ask("run", fleet.scenario("each", 1))
    for name in NAMES:
        assert once_each(fleet.lines(name, "each"), 3)
    command = [sys.executable, "-m", "edgebench", "compare", "--devices", "results"]
    done = subprocess.run(
        command, cwd=fleet.folder, env=fleet.environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("3 devices, 3 points")


def test_a_board_that_dies_loses_only_its_trial(fleet: SshFleet, gate: Gate):
    """Its server and its worker are killed as by a lost power supply: the others end the sweep."""
    fleet.let_in(*NAMES)
    fleet.ask("up")
    running = fleet.start_shared(gate)
    worker = fleet.states()["two"]["pid"]
    fleet.boards["two"].server.kill()
    os.kill(int(worker), signal.SIGKILL)
    gate.let_through()
    assert running.wait(240) == 0, (fleet.folder / "controller.log").read_text()
    assert once_each(fleet.lines("vm", "shared"), 30)
    assert not is_alive(worker)
