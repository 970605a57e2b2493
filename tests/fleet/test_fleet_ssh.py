"""A fleet over real SSH: OpenSSH's client, and servers of dropbear, each a board."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.fleet.conftest import NAMES, Fleet, Gate, once_each, wait_until
from tests.trust.stranger import STRANGER
from tests.worker_places import make_cgroup

_NEEDED = "ssh ssh-agent ssh-keygen dropbear dropbearkey unshare setpriv"
_MISSING = [name for name in _NEEDED.split() if shutil.which(name) is None]
pytestmark = [
    pytest.mark.own_cgroup,
    pytest.mark.root,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(_MISSING), reason=f"needs {', '.join(_MISSING)}"),
]
#: A hostile workload: it looks for a key, and for a way into the session that started it.
_SEARCH = """
import os, sys

def names(folder):
    try:
        return [f"{folder}/{name}" for name in os.listdir(folder)]
    except OSError:
        return []

def content(path):
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            return file.read(1 << 20) or b""
    except OSError:
        return b""

files = []
for top in names("/proc"):
    fds = names(f"{top}/fd")
    files += [f"{top}/environ", f"{top}/cmdline", *fds]
    if b"edgebench.fleet" in content(f"{top}/cmdline") and (fds or os.access(f"{top}/mem", 4)):
        print("the session:", top)
for top in sys.argv[1:]:
    for folder, folders, _ in os.walk(top):
        folders[:] = [one for one in folders if one != "python"]
        # Other tests leave files, too.
        files += [path for path in names(folder) if os.lstat(path).st_uid == os.getuid()]
for path in files:
    data = content(path)
    if b"PRIVATE " + b"KEY" in data or b"SSH_AUTH" + b"_SOCK" in data:
        print("a secret:", path)
print("searched as", os.getuid())
"""
#: A board's own account files, and Python where any user reaches it; seen by all that it starts.
_BOARD = """
mount --bind "$1/passwd" /etc/passwd
mount --bind "$3" "$1/python"
exec dropbear -F -E -e -m -s -p "$2" -r "$1/host" -P "$1/server.pid"
"""
#: Python of a user who has a cgroup of their own, as systemd gives one.
_USERS_PYTHON = """#!/bin/sh
for file in {join}; do echo $$ > $file; done
export LD_LIBRARY_PATH="{folder}/python/lib" HOME="{folder}/user"
export EDGEBENCH_CACHE="$HOME/cache" XDG_STATE_HOME="$HOME/state"
cd "$HOME"
exec setpriv --reuid {user} --regid {user} --clear-groups "{folder}/python/bin/{python}" "$@"
"""


def unused_port(address: str) -> int:
    """A port that nobody uses."""
    with socket.socket() as tried:
        tried.bind((address, 0))
        return int(tried.getsockname()[1])


class Board:
    """An SSH server with a home, keys and places of its own."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.address, self.port = folder, address, unused_port(address)
        home = folder / "home"
        self.keys = home / ".ssh" / "authorized_keys"
        self.keys.parent.mkdir(parents=True, mode=0o700)
        (folder / "python").mkdir()
        user, shell = pwd.getpwuid(0).pw_name, shutil.which("bash")
        (folder / "passwd").write_text(f"{user}:x:0:0::{home}:{shell}\n")
        made = ["dropbearkey", "-t", "ed25519", "-f", str(folder / "host")]
        subprocess.run(made, check=True, capture_output=True)
        own = {"HOME": str(home), "EDGEBENCH_CACHE": f"{home}/cache"}
        own["XDG_STATE_HOME"] = f"{home}/state"
        own["PYTHONPATH"] = f"{Path(__file__).parents[2]}:{Path(pytest.__file__).parents[1]}"
        words = ["unshare", "--mount", "sh", "-c", _BOARD, "sh", str(folder)]
        self.server = subprocess.Popen(
            [*words, f"{address}:{self.port}", sys.base_prefix],
            stderr=subprocess.DEVNULL,
            env={**os.environ, **own},
        )

    def users_python(self) -> str:
        """A Python that runs as a user who owns a home and a cgroup."""
        join = make_cgroup(self.folder.name)
        (self.folder / "user").mkdir()
        own = [path for file in join for path in (Path(file).parent, *Path(file).parent.iterdir())]
        for path in (self.folder / "user", *own):
            os.chown(path, STRANGER, STRANGER)
        program, name = self.folder / "users-python", Path(sys.executable).resolve().name
        about = {"join": " ".join(join), "user": STRANGER, "folder": self.folder, "python": name}
        program.write_text(_USERS_PYTHON.format(**about))
        program.chmod(0o755)
        return str(program)

    def end(self) -> None:
        """End the server and its sessions, as without power."""
        with contextlib.suppress(psutil.Error):
            for one in psutil.Process(self.server.pid).children(recursive=True):
                if one.name() == "dropbear":
                    one.kill()
        self.server.kill()
        self.server.wait()


class SshFleet(Fleet):
    """A fleet whose machines are reached by names of an SSH configuration."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        key = folder / "key"
        made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
        subprocess.run(made, check=True)
        self.key = key.with_suffix(".pub").read_text()
        self.agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(folder / "agent")])
        self.environment["SSH_AUTH_SOCK"] = str(folder / "agent")
        self.boards = {
            name: Board(self.machines / name, f"127.0.0.{number}")
            for number, name in enumerate(NAMES, start=3)
        }
        # With what a careless person may have there.
        config = (
            f"IdentityFile {key}\nIdentitiesOnly yes\nUserKnownHostsFile {folder}/known_hosts\n"
            f"ForwardAgent yes\nRemoteForward 127.0.0.9:{unused_port('127.0.0.9')} localhost:22\n"
            f"ControlMaster auto\nControlPath {folder}/control-%n\nControlPersist 600\n"
        )
        for name, one in self.boards.items():
            config += f"Host {name}\n  HostName {one.address}\n  Port {one.port}\n  User root\n"
        (folder / "ssh_config").write_text(config)
        # OpenSSH takes the configuration from the account's home, whatever HOME says.
        client = folder / "bin" / "ssh"
        client.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/ssh_config "$@"\n')

    def accept(self, *names: str) -> None:
        """Accept these boards' keys, as a person does once."""
        client = [
            str(self.folder / "bin" / "ssh"),
            "-S",
            "none",
            "-o",
            "StrictHostKeyChecking=accept-new",
        ]

        def is_reached(name: str) -> bool:
            command = [*client, "-o", "BatchMode=yes", name, "true"]
            done = subprocess.run(command, capture_output=True, check=False)
            return b"Connection refused" not in done.stderr

        for name in names:
            wait_until(partial(is_reached, name))

    def let_in(self, *names: str) -> None:
        """Accept these boards' keys, and give them ours."""
        self.accept(*names)
        for name in names:
            self.boards[name].keys.write_text(self.key)


@pytest.fixture(scope="module")
def fleet() -> Iterator[SshFleet]:
    """Three boards, of which nobody has logged in to any yet."""
    with tempfile.TemporaryDirectory(prefix="fleet-", dir="/var/tmp") as name:
        Path(name).chmod(0o711)
        made = SshFleet(Path(name))
        yield made
        for board in made.boards.values():
            board.end()
        for process in (*made.controllers, made.agent):
            process.kill()
            process.wait()


def test_a_board_that_asks_a_question_is_named_with_what_answers_it(fleet: SshFleet):
    """An unknown host's key and a key that isn't let in are two remedies; a good board works."""
    fleet.let_in("one")
    fleet.accept("two")
    problems = fleet.ask(fleet.scenario("asking", 1), code=3).left_out
    assert once_each(fleet.lines("one", "asking"), 3)
    assert "Permission denied" in problems["two"]
    assert "ssh-copy-id two" in problems["two"]
    assert "Host key verification failed" in problems["three"]
    assert "log in once by hand, and answer its question: ssh three" in problems["three"]


@pytest.mark.promise("A workload on a fleet's machine finds no key, and no way to the controller.")
def test_a_workload_finds_no_key_and_no_way_back(fleet: SshFleet):
    """It runs as the user who logs in, and reads all that this user can, of all processes."""
    fleet.let_in("one")
    board = fleet.boards["one"]
    fleet.add("one", board.users_python())
    python = f"{board.folder}/python/bin/{Path(sys.executable).resolve().name}"
    (fleet.folder / "search.txt").write_text(_SEARCH)
    places = [str(board.folder / "user"), "/home", "/run", "/tmp", "/var/tmp", "/dev/shm"]
    command = [python, "-I", "-S", "search.txt", *places]
    fleet.ask(fleet.scenario("search", 1, command), "--host", "one")
    (folder,) = fleet.folder.glob("results/one/*-search-*")
    ends = {line["trial"]: line["outcome"] for line in fleet.lines("one", "search")}
    assert "ok" in ends.values()
    for trial in (one for one, outcome in ends.items() if outcome == "ok"):
        assert (folder / "logs" / f"{trial}.log").read_text() == f"searched as {STRANGER}\n"
    assert not list(fleet.folder.glob("control-*"))
    fleet.add("one")


def test_a_board_that_dies_loses_only_its_trial(fleet: SshFleet, gate: Gate):
    """Its server and its sessions end as by a lost power supply: the others end the sweep."""
    fleet.let_in(*NAMES)
    running = fleet.start(fleet.scenario("dying", 5, gate.shared_command), "--shared", "lab")
    gate.let_through(3 * 3 * 2)
    wait_until(lambda: list(fleet.folder.glob("results/lab/*-dying-*")))
    gate.probes_are_over()
    gate.let_through(6)
    log = fleet.folder / "controller.log"
    wait_until(lambda: "two: trial" in log.read_text())
    fleet.boards["two"].end()
    gate.let_through()
    assert running.wait(240) == 0, log.read_text()
    assert once_each(fleet.lines("lab", "dying"), 15)
    assert "two: lost: " in log.read_text()
