"""Which variables root's own code goes by under ``sudo -E``, and which a workload gets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from edgebench.cgroups.leftovers import Ownership
from edgebench.processes import caller_identity, workload_environment
from edgebench.run.trial.launch import Launch, environment_of
from edgebench.run.trial.session import claimed_folder
from edgebench.safe_folders import is_own_place
from tests.trust.stranger import STRANGER

#: A verb, and then what libraries that it loads would go by.
PROGRAM = """
import json, os, sys, tempfile
from edgebench import cli, processes
sys.argv = ["edgebench", "--version"]
try:
    cli.main()
except SystemExit:
    pass
given = processes.given_environment()
print(json.dumps([dict(os.environ), tempfile.gettempdir(), sys.pycache_prefix, given]))
"""


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    folder = tmp_path / "strange"
    folder.mkdir()
    os.chown(folder, STRANGER, STRANGER)
    return folder


@pytest.mark.root
@pytest.mark.process
@pytest.mark.promise("Root's scratch files and caches lie where no other user can change them.")
@pytest.mark.promise("Under sudo -E root's programs get the variables on a list, and no others.")
def test_root_ignores_places_of_another_user(strange: Path, tmp_path: Path):
    own = {"MPLCONFIGDIR": str(tmp_path / "own"), "LC_ALL": "C.UTF-8", "EDGEBENCH_CACHE": "cache"}
    theirs = {
        "DBUS_SYSTEM_BUS_ADDRESS": "tcp:host=127.0.0.1,port=4711",
        "MODPROBE_OPTIONS": "--config=theirs",
        "PYTHONWARNINGS": "error::theirs.Warning",
        "HOME": str(strange),
        "MATPLOTLIBRC": str(strange / "matplotlibrc"),
        "NUMBA_CACHE_DIR": "relative",
        "SSLKEYLOGFILE": "keys.log",
        "LD_RUN_PATH": ":/usr/lib",
        "PYTHONPATH": f"{Path(__file__).parents[2]}:{strange}",
        "PYTHONPYCACHEPREFIX": str(strange),
        "TMPDIR": str(strange),
        "TORCH_HOME": "/tmp/not-there-yet",
        "XDG_CACHE_HOME": str(strange / "cache" / "below"),
    }
    given = {**own, **theirs, "PATH": os.environ["PATH"], "SUDO_UID": str(STRANGER)}
    command = [sys.executable, "-B", "-c", PROGRAM]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
    kept, scratch, compiled, known = json.loads(done.stdout.splitlines()[-1])
    assert own.items() <= kept.items()
    assert set(theirs) & set(kept) == {"HOME"}
    assert is_own_place(Path(kept["HOME"]))
    assert (scratch, compiled) == ("/tmp", None)
    assert given.items() <= known.items()


@pytest.mark.root
@pytest.mark.process
@pytest.mark.promise("Root starts no program from a folder where another user can put one.")
def test_root_searches_its_own_programs_where_nobody_else_can_put_them(strange: Path):
    """Where sudo keeps ``PATH``; the user's own commands are still found, for the workload."""
    for name in ("time", "mkswap"):
        (strange / name).write_text("#!/bin/sh\n")
        (strange / name).chmod(0o755)
    code = (
        "import json, os, shutil; from edgebench import processes as p; p.secure_environment()\n"
        "print(json.dumps([os.environ['PATH'], shutil.which('mkswap'), str(p.find_program('time')),"
        " p.workload_environment(None)['PATH']]))"
    )
    path = f"{strange}:bin:/usr/bin:/bin:/usr/sbin:/sbin"
    command = [sys.executable, "-B", "-c", code]
    given = {"PATH": path, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
    own, swap, users, workload = json.loads(done.stdout)
    assert own == "/usr/bin:/bin:/usr/sbin:/sbin"
    assert not str(swap).startswith(str(strange))
    assert (users, workload) == (str(strange / "time"), path)


@pytest.mark.root
def test_the_scratch_folder_is_in_no_folder_of_another_user(
    strange: Path, monkeypatch: pytest.MonkeyPatch
):
    """A link put in its place would lead root's files elsewhere."""
    monkeypatch.setattr(tempfile, "tempdir", str(strange))
    with Ownership() as ownership:
        assert claimed_folder(ownership).parent == Path("/tmp")
    assert not list(strange.iterdir())


@pytest.mark.root
def test_what_only_we_decide_on(strange: Path, tmp_path: Path):
    file = tmp_path / "file"
    file.touch()
    (tmp_path / "link").symlink_to(strange)
    ours = (tmp_path, tmp_path / "new" / "below", file, Path("/tmp"))
    theirs = (strange, strange / "new", Path("/tmp/not-there-yet"), tmp_path / "link")
    assert [is_own_place(path) for path in (*ours, *theirs)] == [True] * 4 + [False] * 4
    file.chmod(0o620)
    assert not is_own_place(file)
    os.chown(file, STRANGER, STRANGER)
    assert not is_own_place(file)
    assert not is_own_place(file / "below")


@pytest.mark.promise("Under sudo a workload's variables name its user throughout, never root.")
def test_a_workload_has_the_callers_whole_identity(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("edgebench.processes._ignored", {})
    monkeypatch.setattr(
        os,
        "environ",
        {
            "SUDO_UID": "65534",
            "SUDO_GID": "65534",
            "SUDO_USER": "nobody",
            "KEPT": "yes",
            "HOME": "/root",
            "USER": "root",
            "LOGNAME": "root",
            "SHELL": "/bin/bash",
            "MAIL": "/var/mail/root",
            "XDG_RUNTIME_DIR": "/run/user/0",
        },
    )
    caller = caller_identity()
    assert caller
    found = environment_of(Launch((), {"MORE": "too"}), caller)
    assert (found.pop("KEPT"), found.pop("MORE")) == ("yes", "too")
    assert (found.pop("USER"), found.pop("LOGNAME")) == ("nobody", "nobody")
    assert found.pop("HOME") == str(caller.home)
    assert "bash" not in found.pop("SHELL")
    assert not found
    assert workload_environment(None) == os.environ
