"""Many steps of the stage at once, each sweep in an arena of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.own_path import python_path

FAULTS = ("kill", "term", "interrupt", "full-disk", "kill-twice")
#: How many sweeps at once: a sweep mostly waits, for processes to start and for the disk.
AT_ONCE = 2 * (os.cpu_count() or 1)


def walk(fault: str, first: int, every: int) -> dict[str, Any]:
    # On a disk that can hold a swap file, as /tmp often is not.
    folder = Path(tempfile.mkdtemp(prefix="trust-", dir="/var/tmp"))
    stages = [
        _started(folder / str(number), fault, first + number * every, AT_ONCE * every)
        for number in range(AT_ONCE)
    ]
    try:
        found = [_found(stage) for stage in stages]
    finally:
        for stage in stages:
            stage.terminate()
            stage.wait()
        shutil.rmtree(folder)
    return {
        **{name: sum(one[name] for one in found) for name in ("tried", "struck")},
        "wrong": [words for one in found for words in one["wrong"]],
    }


def _started(arena: Path, fault: str, first: int, every: int) -> subprocess.Popen[str]:
    words = [str(arena), fault, str(first), str(every)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.trust.stage", *words],
        env={**os.environ, "PYTHONPATH": python_path()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _found(stage: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = stage.communicate()
    if stage.returncode:
        raise RuntimeError(err)
    found: dict[str, Any] = json.loads(out)
    return found
