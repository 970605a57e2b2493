"""A real parent cgroup and cgroups in it, or skips; and fakes of tools and of kernel files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgebench.cgroups import leftovers, storage, swap
from edgebench.cgroups.interface import Cgroup
from edgebench.cgroups.join import join_command
from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.parent import ParentCgroup, find_parent
from edgebench.errors import CgroupError, MachineError

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def ownership(state: Path) -> Iterator[Ownership]:
    with Ownership(state) as ownership:
        yield ownership


@pytest.fixture
def parent(ownership: Ownership) -> ParentCgroup:
    try:
        return find_parent(ownership)
    except CgroupError as error:
        pytest.skip(f"no cgroup can be created: {error.what}")


@pytest.fixture
def cgroup(parent: ParentCgroup) -> Iterator[Cgroup]:
    made = parent.create(f"{os.getpid()}-test")
    yield made
    made.remove()


@pytest.fixture
def run(cgroup: Cgroup) -> Run:
    def run_command(*command: str, **options: object) -> subprocess.CompletedProcess[str]:
        words = join_command(cgroup, command, options.get("identity"), options.get("cores"))
        return subprocess.run(
            words, capture_output=True, text=True, check=False, env=options.get("env")
        )

    return run_command


@pytest.fixture
def python(run: Run) -> Run:
    def run_python(code: str, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
        return run(sys.executable, "-I", "-S", "-c", code, *words, **options)

    return run_python


class Tools:
    """In place of the system's tools: keeps their words; the first ``failing`` calls fail."""

    def __init__(self) -> None:
        self.called: list[list[str]] = []
        self.failing = 0

    def __call__(self, words: Sequence[str], remedy: str, where: Path | None = None) -> str:
        self.called.append([*words])
        if self.failing:
            self.failing -= 1
            raise MachineError(f"{words[0]} failed: busy", where=str(where), remedy=remedy)
        return "/dev/loop7\n"


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Tools:
    made = Tools()
    for module in (leftovers, storage, swap):
        monkeypatch.setattr(module, "run_tool", made)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(leftovers.time, "sleep", lambda _: None)
    return made


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "root"
    for name in ("sys/block/zram3", "sys/class/zram-control", "sys/block/loop7/loop"):
        (root / name).mkdir(parents=True)
    (root / "sys/class/zram-control/hot_add").write_text("3\n")
    (root / "sys/class/zram-control/hot_remove").write_text("")

    def path(text: str | Path) -> Path:
        return root / str(text).lstrip("/") if str(text).startswith("/sys") else Path(text)

    monkeypatch.setattr(leftovers, "Path", path)
    monkeypatch.setattr(swap, "Path", path)
    monkeypatch.setattr(swap, "_ZRAM_CONTROL", root / "sys/class/zram-control")
    return root


def areas(**priorities: int) -> Callable[[], dict[Path, Any]]:
    found = {Path(f"/dev/{name}"): SimpleNamespace(priority=p) for name, p in priorities.items()}
    return lambda: found
