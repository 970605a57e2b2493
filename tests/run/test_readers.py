"""The readers of a trial: which there are, and that one which fails costs its own keys alone."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgebench.cgroups.interface import Counters
from edgebench.cgroups.swap import Compressed, SwapRam, SwapState
from edgebench.errors import MachineError
from edgebench.records import LimitSetting
from edgebench.run.trial import readers, trial
from edgebench.run.trial.controllers import FAST_DISK
from edgebench.run.trial.outcome import KillReader
from edgebench.run.trial.readers import (
    AcceleratorReader,
    Finished,
    MapsReader,
    OutsideReader,
    Reader,
    ReaderLoop,
)
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import Session
from edgebench.run.trial.trial import TrialFiles, _Measurement, run_trial
from edgebench.run.trial.trial_readers import FilesReader, NoiseReader, SwapReader, TrialReaders

MIB = 1 << 20
FINISHED = Finished(Counters(), None)
COMMAND = {"kind": "command"}
ZRAM = LimitSetting("64M", 64 * MIB, "zram", 16 * MIB)
READERS: list[type[Reader[Any]]] = [
    *(KillReader, NoiseReader, SwapReader, MapsReader, FilesReader, OutsideReader),
    AcceleratorReader,
]


class Counter(Reader[int]):
    """Counts its looks; in the call of that name it raises or hangs."""

    keys = ("count",)

    def __init__(self, fails: str = "", hangs: str = "") -> None:
        self.fails, self.hangs, self.looks, self.closed = fails, hangs, 0, False

    def _may_fail(self, call: str) -> None:
        if call == self.hangs:
            time.sleep(1.5)
        if call == self.fails:
            raise ValueError("broken\x1b")

    def start(self) -> None:
        """Fail or not."""
        self._may_fail("start")

    def poll(self) -> float:
        """Count."""
        self.looks += 1
        self._may_fail("poll")
        return 0.005

    def end(self, command: int) -> None:
        """Fail or not."""
        self._may_fail("end")

    def stop(self, finished: Finished) -> int:
        """Return the looks."""
        self._may_fail("stop")
        return self.looks

    def close(self) -> None:
        """Note it."""
        self.closed = True


class Other(Counter):
    """Another one."""

    keys = ("other",)


@pytest.mark.parametrize("call", ["start", "poll", "end", "stop"])
@pytest.mark.parametrize("hangs", [False, True])
def test_a_reader_that_fails_costs_its_own_keys_alone(
    monkeypatch: pytest.MonkeyPatch, call: str, hangs: bool
) -> None:
    monkeypatch.setattr(readers, "PATIENCE_S", 0.3)
    bad, good = Counter(hangs=call) if hangs else Counter(fails=call), Other()
    with ReaderLoop([bad, None, good]) as loop:
        for _ in range(12):
            time.sleep(0.05)
            loop.check()
        loop.end(1)
        assert loop.stop(bad, FINISHED) is None
        assert (loop.stop(good, FINISHED) or 0) > 20
        assert loop.stop(None, FINISHED) is None
    why = "no answer for 0.3 s" if hangs else "ValueError: broken\\x1b"
    assert loop.missing == {"count": f"it could not be read: {why}"}
    assert bad.closed
    assert good.closed


def test_readers_are_polled_when_they_ask_for_it() -> None:
    class Slow(Counter):
        def poll(self) -> float:
            super().poll()
            return 60.0

    slow, quick = Slow(), Counter()
    with ReaderLoop([slow, quick]) as loop:
        time.sleep(0.2)
        loop.end(1)
    looks = quick.looks
    assert slow.looks == 1
    assert looks > 5
    time.sleep(0.05)
    assert quick.looks == looks


@pytest.mark.own_cgroup
@pytest.mark.quick
@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("kind", READERS, ids=lambda kind: kind.__name__)
def test_a_trial_finishes_without_any_of_its_readers(
    session: Session,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[Reader[Any]],
    hangs: bool,
) -> None:
    def fail(reader: Reader[Any]) -> float:
        if hangs:
            time.sleep(1.0)
        raise OSError("gone")

    monkeypatch.setattr(readers, "PATIENCE_S", 0.5)
    monkeypatch.setattr(kind, "poll", fail)
    limits = LimitSetting()
    if kind is SwapReader:
        limits = LimitSetting(swap_kind="file")
        area = SwapState("file", Path("/swap"), MIB)
        monkeypatch.setattr(session.setup.storage.swap, "state", area)
    settings = {"kind": "command", "command": ["sleep", "0.3"], "accelerator": "cuda"}
    request = TrialRequest("0001", "p1", 0, 0, settings, limits, 60.0)
    record = run_trial(session.setup, request, TrialFiles.scratch(tmp_path))
    assert record.outcome == "ok", record.reason
    failed = {key for key, why in record.missing.items() if "could not be read" in why}
    assert failed == set(kind.keys)


@pytest.mark.own_cgroup
@pytest.mark.quick
def test_a_trial_whose_limit_could_not_be_moved_was_not_made(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its swap's RAM was not charged: it ran with another limit than its own, and is ended."""

    def broken() -> Compressed:
        raise OSError("mm_stat is gone")

    monkeypatch.setattr(trial, "swap_ram", lambda state: SwapRam(broken))
    limits = LimitSetting("64M", 64 * MIB, "zram")
    settings = {"kind": "command", "command": ["sleep", "60"]}
    request = TrialRequest("0001", "p1", 0, 0, settings, limits, 50.0)
    with pytest.raises(MachineError, match="could not follow the RAM of its swap: mm_stat is gone"):
        run_trial(session.setup, request, TrialFiles.scratch(tmp_path))


class FakeGroup:
    """A cgroup of version 2 whose limit and kill are kept."""

    path = Path("/cgroup/edgebench-1-t")

    def __init__(self, folder: Path) -> None:
        (folder / "usage").write_text("12345\n")
        self.hot = SimpleNamespace(usage=folder / "usage", swap=None)
        self.pids, self.moved = list, list[Any]()

    def hot_files(self) -> Any:
        """What samplers read."""
        return self.hot

    def read(self) -> Any:
        """Files, some of them shared memory, which can't be dropped."""
        return SimpleNamespace(file_bytes=30, shmem_bytes=10)

    def move_memory_limit(self, *words: Any, **options: Any) -> None:
        """Keep it."""
        self.moved.append((words, options))

    def kill(self) -> None:
        """Nothing runs."""


def setup(*, starts_cold: bool = True) -> Any:
    """A machine with zram of its own."""
    swap = SimpleNamespace(state=SwapState("zram", Path("/dev/zram3"), MIB))
    return SimpleNamespace(storage=SimpleNamespace(swap=swap), starts_cold=starts_cold)


@pytest.mark.parametrize(
    ("settings", "limits", "more", "kinds"),
    [
        (COMMAND, LimitSetting(), {}, {MapsReader, FilesReader, OutsideReader}),
        (COMMAND, ZRAM, {}, {SwapReader, OutsideReader}),
        (COMMAND, ZRAM, {"starts_cold": False}, {SwapReader, FilesReader, OutsideReader}),
        # What a strategy's own trial uses and leaves is the strategy's.
        (COMMAND, LimitSetting(), {"strategy": "memray"}, set()),
        ({"kind": "inference"}, LimitSetting(), {}, {MapsReader}),
        (
            {"kind": "inference", "accelerator": "cuda"},
            LimitSetting(),
            {},
            {MapsReader, AcceleratorReader},
        ),
    ],
)
def test_which_readers_a_trial_has(
    tmp_path: Path,
    settings: dict[str, Any],
    limits: LimitSetting,
    more: dict[str, Any],
    kinds: set[type],
) -> None:
    group: Any = FakeGroup(tmp_path)
    machine = setup(starts_cold=more.get("starts_cold", True))
    request = TrialRequest("1", "p", 0, 0, settings, limits, 9.0, strategy=more.get("strategy"))
    limited = limits.memory_bytes is not None
    found = TrialReaders.of(machine, request, group, limited=limited).all()
    assert {type(one) for one in found if one} == {KillReader, NoiseReader, *kinds}


def charge_of(
    monkeypatch: pytest.MonkeyPatch, group: FakeGroup, settings: dict[str, Any], **more: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the charge of swap's RAM is made with in such a trial."""
    monkeypatch.setattr(trial, "SwapCharge", lambda *words, **options: (words, options))
    monkeypatch.setattr(trial, "swap_ram", lambda state: state.kind)
    measurement: Any = object.__new__(_Measurement)
    measurement.setup, measurement.cgroup = setup(), group
    measurement.request = TrialRequest("0001", "p", 0, 0, settings, ZRAM, 9.0, **more)
    made: Any = measurement._swap_charge()
    return made


def test_the_ram_of_its_swap_is_charged_to_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = FakeGroup(tmp_path)
    words, options = charge_of(monkeypatch, group, COMMAND)
    assert words == ("zram", 64 * MIB)
    assert (options["used"](), options["files"]()) == (12345, 20)
    options["move"](5)
    assert group.moved == [((5, 16 * MIB), {"waits": False})]
    assert (options["kill"], options["not_charged"]) == (group.kill, None)
    # A calibration measures the swap itself; a walk uses it as a fast disk.
    for kind in ("scan", "hot-base"):
        assert charge_of(monkeypatch, group, {"kind": kind})[0][0] is None
    steps: Any = "walk"
    walked = charge_of(monkeypatch, group, {"kind": "inference"}, walk=steps)
    assert walked[1]["not_charged"] == FAST_DISK
