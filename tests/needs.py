"""What a test needs, by its marks (pyproject.toml); a test without any is pure, and held to it.

A pure test starts no process, makes no cgroup and loads no torch, TensorFlow or other engine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

#: A test with any of these may start processes.
STARTS_PROCESSES = ("process", "torch", "own_cgroup", "exclusive", "swap", "gpu", "browser")
NOT_PURE = ("heavy", "long", *STARTS_PROCESSES)
#: A test with any of these may make cgroups in the test's own process.
MAKES_CGROUPS = ("own_cgroup", "exclusive", "swap", "gpu")
#: Seconds to load, and hundreds of MiB.
ENGINES = ("torch", "tensorflow", "onnxruntime", "ai_edge_litert")

_STARTS = {
    *("subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn"),
    *("os.system", "pty.spawn"),
}


def is_pure(item: pytest.Item) -> bool:
    return not any(map(item.get_closest_marker, NOT_PURE))


class Guard:
    """Refuses what the running test has no mark for, by an audit hook of this process.

    A refused start is kept too: a test that catches the refusal fails all the same.
    """

    def __init__(self) -> None:
        self._process = self._cgroup = True
        self._engines: set[str] = set()
        self._refused: str | None = None
        self._test: pytest.Item | None = None
        sys.addaudithook(self._hear)

    def watch(self, item: pytest.Item) -> None:
        self._test = item
        self._process = any(map(item.get_closest_marker, STARTS_PROCESSES))
        self._cgroup = any(map(item.get_closest_marker, MAKES_CGROUPS))
        self._engines = set() if item.get_closest_marker("torch") else set(ENGINES) - _loaded()
        self._refused = None

    def rest(self) -> None:
        self._process = self._cgroup = True
        self._test = None

    def require(self, marks: Sequence[str]) -> None:
        missing = [m for m in marks if self._test and not self._test.get_closest_marker(m)]
        if missing:
            pytest.fail(f"mark the test with `{'`, `'.join(missing)}`", pytrace=False)

    def check(self) -> None:
        if self._refused:
            pytest.fail(self._refused, pytrace=False)
        if loaded := sorted(self._engines & _loaded()):
            pytest.fail(f"loads {loaded[0]}: mark the test with `torch`", pytrace=False)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if not self._process and event in _STARTS:
            self._refuse(f"starts a process ({event}): mark the test with `process`")
        elif not self._cgroup and event == "os.mkdir" and _is_cgroup(*args):
            self._refuse("makes a cgroup: mark the test with `own_cgroup`")

    def _refuse(self, why: str) -> None:
        self._refused = why
        raise pytest.fail.Exception(why)


#: Active while a test is set up and runs.
GUARD = Guard()


def _loaded() -> set[str]:
    return {name for name in ENGINES if name in sys.modules}


def _is_cgroup(path: Any, _mode: int, folder: int) -> bool:
    if not isinstance(path, str | bytes | os.PathLike):
        return False
    text = os.fsdecode(path)
    if folder >= 0 and not text.startswith("/"):
        text = str(Path(f"/proc/self/fd/{folder}").readlink() / text)
    return text.startswith("/sys/fs/cgroup/")
