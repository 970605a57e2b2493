"""Which readers watch a trial from outside, by its settings."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgebench.cgroups.swap import SwapState
from edgebench.records import LimitSetting
from edgebench.run.trial import accelerator_watch
from edgebench.run.trial import watch as trial_watch
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.swap_watch import FAST_DISK
from edgebench.run.trial.watch import TrialWatch

MIB = 1 << 20
AREA = Path("/dev/zram3")
COMMAND = {"kind": "command"}


class Made:
    """In place of a reader's class: keeps what one is made with."""

    def __init__(self) -> None:
        self.words: tuple[Any, ...] = ()
        self.options: dict[str, Any] = {}

    def __call__(self, *words: Any, **options: Any) -> Made:
        """One is made."""
        self.words, self.options = words, options
        return self


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> dict[str, Made]:
    """Readers' classes by their names."""
    names = ("SwapWatch", "SwapCharge", "OutsideWatch")
    classes = {name: Made() for name in ("AcceleratorWatch", *names)}
    for name in names:
        monkeypatch.setattr(trial_watch, name, classes[name])
    # It is loaded for a trial on an accelerator alone.
    monkeypatch.setattr(accelerator_watch, "AcceleratorWatch", classes["AcceleratorWatch"])
    monkeypatch.setattr(trial_watch, "group_swap", lambda hot: f"swap of {hot.usage.name}")
    return classes


class Cgroup:
    """One of version 2 whose limit and kill are kept."""

    def __init__(self, folder: Path) -> None:
        (folder / "usage").write_text("12345\n")
        self.hot = SimpleNamespace(usage=folder / "usage")
        self.pids, self.moved = list, list[Any]()

    def hot_files(self) -> Any:
        """What samplers read."""
        return self.hot

    def read(self) -> Any:
        """Files, some of them shared memory, which can't be dropped."""
        return SimpleNamespace(file_bytes=30, shmem_bytes=10)

    def move_memory_limit(self, *words: Any, **options: Any) -> None:
        """Kept."""
        self.moved.append((words, options))

    def kill(self) -> None:
        """Nothing runs."""


def watch(
    cgroup: Cgroup,
    settings: dict[str, Any],
    limits: LimitSetting | None = None,
    **more: Any,
) -> None:
    """The watch of one trial on a machine with zram of its own."""
    swap = SimpleNamespace(state=SwapState("zram", AREA, MIB))
    setup: Any = SimpleNamespace(
        storage=SimpleNamespace(swap=swap),
        parent=SimpleNamespace(version=2),
    )
    request = TrialRequest("0001", "p", 0, 0, settings, limits or LimitSetting(), 9.0, **more)
    made: Any = cgroup
    TrialWatch(setup, request, made)


def test_a_program_s_trial_is_watched_by_all(made: dict[str, Made], tmp_path: Path) -> None:
    """Its own swap area, what outlives it; no accelerator."""
    cgroup = Cgroup(tmp_path)
    limits = LimitSetting("64M", 64 * MIB, "zram", 16 * MIB)
    watch(cgroup, COMMAND, limits)
    assert made["AcceleratorWatch"].words == ()
    assert made["SwapWatch"].words == (AREA, trial_watch.read_swap_areas, "swap of usage")
    assert made["OutsideWatch"].words == (cgroup,)
    assert made["OutsideWatch"].options == {"wanted": True}


def test_a_trial_without_swap_has_no_area_of_its_own(made: dict[str, Made], tmp_path: Path) -> None:
    """Though one is set up for the others of the sweep; nothing is charged for it either."""
    cgroup = Cgroup(tmp_path)
    watch(cgroup, {"kind": "inference", "accelerator": "cuda:0"})
    assert made["SwapWatch"].words[0] is None
    assert made["SwapCharge"].words[:2] == (None, None)
    assert made["AcceleratorWatch"].words == (cgroup.pids,)
    assert made["OutsideWatch"].options == {"wanted": False}


def test_a_strategy_s_own_trial_is_watched_by_itself(made: dict[str, Made], tmp_path: Path) -> None:
    """Not for what outlives it: that would be of the strategy."""
    watch(Cgroup(tmp_path), COMMAND, strategy="heap")
    assert made["OutsideWatch"].options["wanted"] is False


def test_the_ram_of_its_swap_is_charged_to_its_limit(
    made: dict[str, Made], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit moves without waiting, swap's stays; files are those that can be dropped."""
    cgroup = Cgroup(tmp_path)
    monkeypatch.setattr(trial_watch, "swap_ram", lambda state, version: (state.kind, version))
    watch(cgroup, COMMAND, LimitSetting("64M", 64 * MIB, "zram", 16 * MIB))
    charge = made["SwapCharge"]
    assert charge.words == (("zram", 2), 64 * MIB)
    assert (charge.options["used"](), charge.options["files"]()) == (12345, 20)
    charge.options["move"](5)
    assert cgroup.moved == [((5, 16 * MIB), {"waits": False})]
    assert charge.options["kill"] == cgroup.kill
    assert (charge.options["swapped"], charge.options["not_charged"]) == ("swap of usage", None)


@pytest.mark.parametrize("kind", ["scan", "hot-base"])
def test_a_calibration_is_not_charged_for_the_swap_that_it_measures(
    made: dict[str, Made], tmp_path: Path, kind: str
) -> None:
    """It would measure another limit."""
    watch(Cgroup(tmp_path), {"kind": kind}, LimitSetting("64M", 64 * MIB, "zram", 16 * MIB))
    assert made["SwapCharge"].words[0] is None


def test_a_walk_uses_its_swap_as_a_fast_disk(made: dict[str, Made], tmp_path: Path) -> None:
    """And says so instead of a charge."""
    steps: Any = "walk"
    watch(Cgroup(tmp_path), {"kind": "inference"}, walk=steps)
    assert made["SwapCharge"].options["not_charged"] == FAST_DISK
