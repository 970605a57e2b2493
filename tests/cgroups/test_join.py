"""The helper that joins a cgroup and becomes the command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from edgebench.cgroups import join
from edgebench.cgroups.interface import Cgroup
from edgebench.processes import Identity, in_memory
from tests.cgroups.conftest import Run

NOBODY = Identity(65534, 65534, (65534, 100), Path("/"))


def helper(
    *command: str, join_file: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The helper by itself, without a cgroup or with a file for one; ``env`` is the command's."""
    words = [f"join={join_file}"] if join_file else []
    with in_memory(join.environment_block(os.environ if env is None else env)) as variables:
        words.append(f"environment={variables.fileno()}")
        return subprocess.run(
            [sys.executable, "-I", "-S", join.__file__, *words, "--", *command],
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
            pass_fds=[variables.fileno()],
        )


@pytest.mark.own_cgroup
def test_the_command_is_in_all_hierarchies(cgroup: Cgroup, run: Run):
    seen = run("cat", "/proc/self/cgroup").stdout
    assert seen.count(cgroup.path.name) == len(cgroup.join_files())


@pytest.mark.own_cgroup
@pytest.mark.root
def test_rights_are_dropped(run: Run):
    status = run("cat", "/proc/self/status", identity=NOBODY).stdout
    lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert set(lines["Uid"].split()) == set(lines["Gid"].split()) == {"65534"}
    assert lines["Groups"].split() == ["100", "65534"]
    assert lines["NoNewPrivs"] == "1"
    assert int(lines["CapEff"], 16) == 0


@pytest.mark.own_cgroup
def test_the_cores_are_kept_to(run: Run):
    core = min(os.sched_getaffinity(0))
    status = run("cat", "/proc/self/status", cores=(core,)).stdout
    assert f"Cpus_allowed_list:\t{core}\n" in status


@pytest.mark.process
def test_no_shell_looks_at_the_words():
    words = ["a b", "$HOME", "; rm -rf x", "'\"", "", "*", "--", "join=x"]
    done = helper(sys.executable, "-c", "import sys; print(sys.argv[1:])", *words)
    assert done.stdout.strip() == str(words)


@pytest.mark.process
def test_what_is_no_command_ends_with_one_line():
    done = helper("no-such-command")
    assert (done.returncode, done.stderr) == (127, "edgebench: no command 'no-such-command'\n")
    done = helper("/")
    assert (done.returncode, done.stderr.count("\n")) == (126, 1)


@pytest.mark.process
def test_a_cgroup_that_is_gone(tmp_path: Path):
    """One line and exit code 125; the command is not run outside the limit."""
    done = helper("echo", "ran", join_file=tmp_path / "gone" / "cgroup.procs")
    assert (done.returncode, done.stdout) == (125, "")
    assert "can't join the cgroup" in done.stderr


@pytest.mark.process
@pytest.mark.root
@pytest.mark.promise("The folder that a workload runs in is entered with its user's rights.")
def test_a_folder_is_entered_as_the_user(tmp_path: Path):
    tmp_path.chmod(0o700)
    words = [sys.executable, "-I", "-S", join.__file__, "user=65534,65534", f"cwd={tmp_path}"]
    done = subprocess.run([*words, "--", "pwd"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (125, "")
    assert f"can't run in {tmp_path}" in done.stderr
    words[4] = "user=0,0"
    done = subprocess.run([*words, "--", "pwd"], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(tmp_path)


def ignored(status: str) -> set[int]:
    """The signals that a process ignores; beyond 31 are the C library's own."""
    line = next(line for line in status.splitlines() if line.startswith("SigIgn"))
    return {number for number in range(1, 32) if int(line.split()[1], 16) >> (number - 1) & 1}


@pytest.mark.process
def test_the_command_gets_signals_and_locale_as_they_were(monkeypatch: pytest.MonkeyPatch):
    """Python's own ignored signals and its locale coercion don't reach the command.

    What the tests themselves were started with, as by ``nohup``, reaches it.
    """
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.delenv("LC_CTYPE", raising=False)
    monkeypatch.setenv("LANG", "C")
    done = helper("sh", "-c", "grep SigIgn /proc/$$/status; env")
    here = ignored(Path("/proc/self/status").read_text())
    assert ignored(done.stdout) == here - {signal.SIGPIPE, signal.SIGXFSZ}
    assert "LC_CTYPE" not in done.stdout


@pytest.mark.process
def test_the_command_alone_gets_its_variables():
    given = {"PATH": "/usr/bin:/bin", "A": "b=c\nd", "NONE": "", "B\udcff": "\udcfe"}
    done = helper("sh", "-c", "cat /proc/$$/environ; ls -l /proc/self/fd", env=given)
    *variables, files = done.stdout.encode(errors="surrogateescape").split(b"\0")
    expected = {os.fsencode(f"{name}={value}") for name, value in given.items()}
    assert set(variables) == expected
    assert b"memfd" not in files
