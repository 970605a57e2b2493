"""Results while they are made, after a disk was full for a while, under a clock that jumps."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.own_path import python_path

pytestmark = [pytest.mark.own_cgroup, pytest.mark.root]
_SCENARIO = """
schema = 1
name = "lasting"
repeats = 8
timeout = "20s"
[workload]
kind = "command"
command = ["/bin/sh", "-c", "echo 0123456789; sleep 0.02"]
[limits]
memory = ["64M"]
swap = "none"
"""
_TRIALS = 16


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "edgebench", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": python_path()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=280)
    return process.returncode, out, err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.toml").write_text(_SCENARIO)
    return tmp_path


@pytest.mark.promise("`show` works while a sweep writes.")
def test_show_reads_a_sweep_at_every_instant(folder: Path) -> None:
    go_on, file = folder / "go-on", folder / "s.toml"
    # Its trials wait for the second look.
    wait = f"while [ ! -e {go_on} ]; do sleep 0.02; done"
    file.write_text(file.read_text().replace("sleep 0.02", wait))
    sweep = start(folder, "run", "s.toml", "--device", "d")
    seen = []
    while sweep.poll() is None:
        code, out, err = done(start(folder, "show", "--json"))
        assert "Traceback" not in err
        if code == 0:
            seen.append(json.loads(out)["recorded"])
            if len(seen) == 2:
                go_on.touch()
        else:
            assert "no results here" in err or "no such folder" in err
    assert done(sweep)[0] == 0
    assert seen == sorted(seen)
    assert len(seen) >= 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = Path(tempfile.mkdtemp(prefix="trust-", dir="/var/tmp"))
    mounted = ["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", str(disk)]
    if subprocess.run(mounted, capture_output=True, check=False).returncode:
        shutil.rmtree(disk)
        pytest.skip("no file system can be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)
    disk.rmdir()


@pytest.mark.promise("A trial that failed because of the harness is run again by the next start.")
def test_what_a_full_disk_prevented_is_made_up_for(folder: Path, small_disk: Path) -> None:
    where = ("run", "s.toml", "--device", "d", "--results", str(small_disk))
    code, _, err = done(start(folder, *where))
    assert code in (1, 3)
    assert "Traceback" not in err
    assert "No space left on device" in err or "harness-error" in err
    assert done(start(folder, "show", str(small_disk)))[0] == 0
    subprocess.run(["mount", "-o", "remount,size=16M", str(small_disk)], check=True)
    assert done(start(folder, *where))[0] == 0
    code, out, _ = done(start(folder, "show", str(small_disk), "--json"))
    told = json.loads(out)
    assert (code, told["state"], told["recorded"]) == (0, "complete", _TRIALS)
    assert sum(point["outcomes"].get("ok", 0) for point in told["points"]) == _TRIALS
    assert len(list(small_disk.glob("d/*/complete.json"))) == 1
