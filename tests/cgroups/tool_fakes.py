"""In place of the system's tools and of the kernel's files, for tests that change neither."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgebench.cgroups import leftovers, storage, swap
from edgebench.errors import MachineError

DEVICE = "/dev/loop7"


class Tools:
    """In place of the system's tools: keeps their words; the first ``failing`` calls fail."""

    def __init__(self, failing: int = 0) -> None:
        self.called: list[list[str]] = []
        self.failing = failing

    def __call__(self, words: Sequence[str], remedy: str, where: Path | None = None) -> str:
        self.called.append([*words])
        if self.failing:
            self.failing -= 1
            raise MachineError(f"{words[0]} failed: busy", where=str(where), remedy=remedy)
        return f"{DEVICE}\n"


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
