"""A fleet over real SSH: OpenSSH's client, and servers of dropbear, each a board."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.conftest import Fleet, once_each, wait_until
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
#: Boards' own account files, and Python where any user reaches it; seen by all that they start.
_BOARD = """
mount --bind "$1/passwd" /etc/passwd
mount --bind "$3" "$1/python"
exec dropbear -F -E -m -s -p "$2" -r "$1/host" -P "$1/server.pid"
"""


class SshFleet(Fleet):
    """A fleet whose machines are reached by names of an SSH configuration; one server has all."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        home, key = folder / "home", folder / "key"
        (home / ".ssh").mkdir(parents=True, mode=0o700)
        (folder / "python").mkdir()
        user, shell = pwd.getpwuid(0).pw_name, shutil.which("bash")
        (folder / "passwd").write_text(f"{user}:x:0:0::{home}:{shell}\n")
        for made in (
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)],
            ["dropbearkey", "-t", "ed25519", "-f", str(folder / "host")],
        ):
            subprocess.run(made, check=True, capture_output=True)
        (home / ".ssh" / "authorized_keys").write_text(key.with_suffix(".pub").read_text())
        with socket.socket() as tried:
            tried.bind(("127.0.0.3", 0))
            port = tried.getsockname()[1]
        self.environment["SSH_AUTH_SOCK"] = str(folder / "agent")
        words = ["unshare", "--mount", "sh", "-c", _BOARD, "sh", str(folder)]
        agent = ["ssh-agent", "-D", "-a", str(folder / "agent")]
        self.servers = [
            subprocess.Popen(one, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for one in ([*words, f"127.0.0.3:{port}", sys.base_prefix], agent)
        ]
        # With what a careless person may have there.
        (folder / "ssh_config").write_text(
            f"IdentityFile {key}\nIdentitiesOnly yes\nUser root\nHostName 127.0.0.3\nPort {port}\n"
            f"UserKnownHostsFile {folder}/known_hosts\nForwardAgent yes\n"
            f"RemoteForward 127.0.0.9:0 localhost:22\nControlMaster auto\n"
            f"ControlPath {folder}/control-%n\nControlPersist 600\n"
        )
        # OpenSSH takes the configuration from the account's home, whatever HOME says.
        self.client = [str(shutil.which("ssh")), "-F", f"{folder}/ssh_config"]
        (folder / "bin" / "ssh").write_text(f'#!/bin/sh\nexec {" ".join(self.client)} "$@"\n')

        def is_reached() -> bool:
            accept = ["-S", "none", "-o", "StrictHostKeyChecking=accept-new", "one", "true"]
            return not subprocess.run([*self.client, *accept], stderr=-3, check=False).returncode

        wait_until(is_reached)


@pytest.fixture(scope="module")
def fleet() -> Iterator[SshFleet]:
    """Three boards, of which nobody has logged in to any yet."""
    with tempfile.TemporaryDirectory(prefix="fleet-", dir="/var/tmp") as name:
        Path(name).chmod(0o711)
        made = SshFleet(Path(name))
        yield made
        for process in (*made.controllers, *made.servers):
            process.kill()
            process.wait()


def test_a_board_that_asks_a_question_is_named_with_what_answers_it(fleet: SshFleet):
    config = fleet.folder / "ssh_config"
    before = config.read_text()
    own = "Host two\nPubkeyAuthentication no\nHost three\nUserKnownHostsFile /dev/null\nHost *\n"
    config.write_text(own + before)
    problems = fleet.ask(fleet.scenario("asking", 1), code=3).left_out
    config.write_text(before)
    assert once_each(fleet.lines("one", "asking"), 3)
    assert "Permission denied" in problems["two"]
    assert "ssh-copy-id two" in problems["two"]
    assert "Host key verification failed" in problems["three"]
    assert "log in once by hand, and answer its question: ssh three" in problems["three"]


@pytest.mark.promise("A workload on a fleet's machine finds no key, and no way to the controller.")
def test_a_workload_finds_no_key_and_no_way_back(fleet: SshFleet):
    home = fleet.folder / "user"
    home.mkdir()
    join = make_cgroup("user")
    for path in (home, *(path for file in join for path in Path(file).parent.iterdir())):
        os.chown(path, STRANGER, STRANGER)
    for file in join:
        os.chown(Path(file).parent, STRANGER, STRANGER)
    # As of a user who has a cgroup, by systemd.
    before = f"for file in {' '.join(join)}; do echo $$ > $file; done; cd {home}\n"
    before += f"export HOME={home} EDGEBENCH_CACHE={home}/cache XDG_STATE_HOME={home}/state\n"
    before += f"export LD_LIBRARY_PATH={fleet.folder}/python/lib"
    python = f"{fleet.folder}/python/bin/{Path(sys.executable).resolve().name}"
    as_user = f"setpriv --reuid {STRANGER} --regid {STRANGER} --clear-groups {python}"
    fleet.add("one", as_user, before)
    (fleet.folder / "search.txt").write_text(_SEARCH)
    places = [str(home), "/home", "/run", "/tmp", "/var/tmp", "/dev/shm"]
    name = fleet.scenario("search", 1, [python, "-I", "-S", "search.txt", *places])
    fleet.ask(name, "--host", "one")
    fleet.add("one")
    (folder,) = fleet.folder.glob("results/one/*-search-*")
    ends = {line["trial"]: line["outcome"] for line in fleet.lines("one", "search")}
    assert "ok" in ends.values()
    for trial in (one for one, outcome in ends.items() if outcome == "ok"):
        assert (folder / "logs" / f"{trial}.log").read_text() == f"searched as {STRANGER}\n"
    assert not list(fleet.folder.glob("control-*"))
