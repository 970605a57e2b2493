"""The readers of a trial: which there are, and that one which fails costs its own keys alone."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from edgebench.cgroups import process_files
from edgebench.cgroups.interface import Cgroup, Counters
from edgebench.cgroups.process_files import LEAST_BYTES, MappedFiles
from edgebench.cgroups.sampler import SAME_BYTES
from edgebench.cgroups.swap import Compressed, SwapRam, SwapState
from edgebench.cgroups.v2 import SOURCES
from edgebench.errors import MachineError
from edgebench.records import LimitSetting
from edgebench.run.trial import controllers, readers, trial_readers
from edgebench.run.trial.controllers import FAST_DISK, SwapCharge
from edgebench.run.trial.outcome import KillReader
from edgebench.run.trial.readers import (
    AcceleratorReader,
    Finished,
    MapsReader,
    MapsReadings,
    OutsideReader,
    Reader,
    ReaderLoop,
)
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import Session
from edgebench.run.trial.trial_readers import FilesReader, NoiseReader, SwapReader, TrialReaders
from tests.run.made_trials import python_trial

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

    def __init__(self, key: str = "count", fails: str = "", hangs: str = "") -> None:
        self.keys, self.fails, self.hangs = (key,), fails, hangs
        self.looks, self.closed = 0, False

    def _may_fail(self, call: str) -> None:
        if call == self.hangs:
            time.sleep(1.5)
        if call == self.fails:
            raise ValueError("broken\x1b")

    def start(self) -> None:
        self._may_fail("start")

    def poll(self) -> float:
        self.looks += 1
        self._may_fail("poll")
        return 0.005

    def end(self, command: int) -> None:
        self._may_fail("end")

    def stop(self, finished: Finished) -> int:
        self._may_fail("stop")
        return self.looks

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("call", ["start", "poll", "end", "stop"])
@pytest.mark.parametrize("hangs", [False, True])
def test_a_reader_that_fails_costs_its_own_keys_alone(
    monkeypatch: pytest.MonkeyPatch, call: str, hangs: bool
) -> None:
    monkeypatch.setattr(readers, "PATIENCE_S", 0.3)
    bad, good = Counter(hangs=call) if hangs else Counter(fails=call), Counter("other")
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
    code = "import time; time.sleep(0.3)"
    record = python_trial(session.setup, tmp_path, code, limits=limits, accelerator="cuda")
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

    monkeypatch.setattr(controllers, "swap_ram", lambda state: SwapRam(broken))
    limits = LimitSetting("64M", 64 * MIB, "zram")
    with pytest.raises(MachineError, match="could not follow the RAM of its swap: mm_stat is gone"):
        python_trial(session.setup, tmp_path, "import time; time.sleep(60)", limits=limits)


class FakeGroup:
    """A cgroup of version 2 whose limit and kill are kept."""

    path = Path("/cgroup/edgebench-1-t")

    def __init__(self, folder: Path) -> None:
        (folder / "usage").write_text("12345\n")
        self.hot = SimpleNamespace(usage=folder / "usage", swap=None)
        self.pids, self.moved = list, list[Any]()

    def hot_files(self) -> Any:
        return self.hot

    def read(self) -> Any:
        """Files, some of them shared memory, which can't be dropped."""
        return SimpleNamespace(file_bytes=30, shmem_bytes=10)

    def move_memory_limit(self, *words: Any, **options: Any) -> None:
        self.moved.append((words, options))

    def kill(self) -> None:
        """Nothing runs."""


def setup(*, starts_cold: bool = True) -> Any:
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
    found = TrialReaders(machine, request, group, limited=limited).all()
    assert {type(one) for one in found if one} == {KillReader, NoiseReader, *kinds}


def charge_of(
    monkeypatch: pytest.MonkeyPatch, group: FakeGroup, settings: dict[str, Any], **more: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:

    class Charge(SwapCharge):
        def __init__(self, *words: Any, **options: Any) -> None:
            self.made = words, options

    monkeypatch.setattr(controllers, "swap_ram", lambda state: state.kind)
    request = TrialRequest("0001", "p", 0, 0, settings, ZRAM, 9.0, **more)
    charge: Any = Charge.of(cast("Cgroup", group), request, SwapState("zram"))
    return charge.made


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


class Group:
    """A group of one process; at each reading its ``memory.stat`` has the next MiB in its list.

    They are of mapped files and of shared memory. Without any there is no such file.
    """

    sources = SOURCES

    def __init__(self, folder: Path, *charged: tuple[int, int]) -> None:
        self._file, self._left = folder / "memory.stat", list(charged)

    def pids(self) -> tuple[int, ...]:
        return (os.getpid(),)

    def file(self, controller: str, name: str) -> Path | None:
        if not self._left:
            return None
        mapped, shared = self._left.pop(0)
        sizes = f"shmem {shared * MIB}\nfile_mapped {mapped * MIB}\n"
        self._file.write_text(f"anon 100\nfile 50\n{sizes}")
        return self._file


class Watched:
    def __init__(
        self, patch: pytest.MonkeyPatch, group: Group, *, is_limited: bool = False
    ) -> None:
        self.reader = MapsReader(cast("Cgroup", group), is_limited=is_limited)
        self._now_ms, self._found, self._mapped = 0.0, MappedFiles(), 0
        patch.setattr(readers, "mapped_bytes", lambda pids: self._mapped)
        patch.setattr(readers, "mapped_files", lambda pids: self._found)
        patch.setattr(readers.time, "monotonic", self._clock)

    def _clock(self) -> float:
        self._now_ms += 0.5
        return self._now_ms / 1000

    def look(self, found: tuple[int, int, int] | None, mapped: int) -> float:
        """Look when this much of libraries, own files and shared memory is mapped, MiB."""
        self._found = MappedFiles(*(size * MIB for size in found)) if found else None  # type: ignore[assignment]
        self._mapped = mapped
        return self.reader.poll()

    @property
    def seen(self) -> MapsReadings:
        return self.reader.stop(FINISHED)


@pytest.mark.parametrize(
    ("before", "after"), [((20, 9), (24, 12)), ((24, 12), (20, 9)), ((20, 12), (24, 9))]
)
def test_of_what_grew_or_shrank_between_two_readings_the_lesser_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: tuple[int, int], after: tuple[int, int]
) -> None:
    """Libraries are what is charged beside own files and shared memory; the rest nobody maps."""
    watched = Watched(monkeypatch, Group(tmp_path, before, after))
    watched.look((3, 4, 6), 1)
    (look,) = watched.seen.looks
    assert (look.unmapped_shared_bytes, look.elsewhere_bytes) == (3 * MIB, 0)
    assert look.charged_library_bytes == (20 - 6 - 4) * MIB
    assert (watched.seen.library_bytes, watched.seen.missing) == (3 * MIB, {})


@pytest.mark.parametrize(
    ("before", "after", "elsewhere"),
    [
        # 6 MiB of own files are mapped, and beside shared memory 4 are charged at most.
        (10, 10, 2),
        (9, 10, 2),
        # The charge shrank meanwhile: what ended may have mapped more.
        (10, 9, 0),
        (10, 0, 0),
        (14, 14, 0),
    ],
)
def test_own_files_that_are_charged_elsewhere_are_what_is_mapped_beyond(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: int, after: int, elsewhere: int
) -> None:
    watched = Watched(monkeypatch, Group(tmp_path, (before, 6), (after, 6)))
    watched.look((0, 6, 6), 1)
    assert watched.seen.elsewhere_bytes == elsewhere * MIB


def test_the_most_of_all_looks_counts_and_looks_are_few(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    watched = Watched(monkeypatch, Group(tmp_path, *[(20, 0)] * 8))
    watched.look((3, 22, 0), 10 * SAME_BYTES)
    # No more is mapped.
    watched.look((9, 20, 0), 12 * SAME_BYTES)
    assert len(watched.seen.looks) == 1
    watched.look((5, 23, 0), 20 * SAME_BYTES)
    watched.look((4, 21, 0), 40 * SAME_BYTES)
    assert [look.elsewhere_bytes // MIB for look in watched.seen.looks] == [2, 3, 1]
    assert watched.seen.elsewhere_bytes == 3 * MIB
    assert watched.seen.library_bytes == 5 * MIB
    assert watched.seen.missing == {}
    # The looks took 0.5 ms, by this clock.
    assert watched.look((4, 21, 0), 0) == 0.2


@pytest.mark.parametrize(("took_ms", "wait_s"), [(0.5, 0.05), (40, 2.0)])
def test_maps_are_read_for_a_fiftieth_of_the_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, took_ms: float, wait_s: float
) -> None:
    """The kernel stops changes of maps meanwhile."""
    watched = Watched(monkeypatch, Group(tmp_path))
    times = iter([0.0, took_ms / 1000])
    monkeypatch.setattr(readers.time, "monotonic", lambda: next(times))
    assert watched.look(None, 1) == pytest.approx(wait_s)


def test_why_nothing_is_told_of_maps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ended = Watched(monkeypatch, Group(tmp_path)).seen
    assert ended == MapsReadings([], None, 0, {"library_bytes": readers.NOT_LOOKED})
    for group in (Group(tmp_path, (1, 1), (1, 1)), Group(tmp_path)):
        blind = Watched(monkeypatch, group)
        blind.look(None, 1)
        missing = {"library_bytes": readers.NOT_SHOWN}
        assert blind.seen == MapsReadings([], None, None, missing)
    limited = Watched(monkeypatch, Group(tmp_path), is_limited=True)
    limited.look((5, 1, 1), 1)
    assert limited.seen == MapsReadings([], 5 * MIB, None, {})


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    sizes = dict.fromkeys(("mapped", "read", "both", "changed", "written", "code"), LEAST_BYTES)
    made = {name: tmp_path / name for name in (*sizes, "small")}
    for name, path in made.items():
        path.write_bytes(bytes(sizes.get(name, LEAST_BYTES - 1)))
    return made


def test_the_files_of_a_program_are_those_it_maps_or_reads(files: dict[str, Path]) -> None:
    flags = {"read": os.O_RDONLY, "both": os.O_RDWR, "changed": os.O_RDWR}
    flags |= {"written": os.O_WRONLY, "small": os.O_RDONLY}
    fds = [os.open(files[name], flag) for name, flag in flags.items()]
    areas = []
    for name, more in (("mapped", 0), ("both", 0), ("code", mmap.PROT_EXEC)):
        with files[name].open("rb") as file:
            rights = {"flags": mmap.MAP_PRIVATE, "prot": mmap.PROT_READ | more}
            areas.append(mmap.mmap(file.fileno(), 0, **rights))
    cgroup: Any = SimpleNamespace(pids=lambda: (os.getpid(),))
    reader = FilesReader(cgroup)
    assert reader.poll() > 0
    seen = reader.stop(FINISHED)
    found = {path.name: path in seen.mapped for path in seen.cached if path in files.values()}
    for fd in fds:
        os.close(fd)
    for area in areas:
        area.close()
    if not found:
        pytest.skip("the temporary folder is on no disk")
    assert found == {"mapped": True, "read": False, "both": True, "changed": False}
    assert seen.processes == 1


def test_what_was_read_is_shared_among_the_files_that_were_open(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their sizes, from the look that saw the first; what no look saw is of who read most.

    One reads 1000 bytes with files of 1 and 3 MiB open, another 60 with the first; 100 more later.
    """
    for module in (process_files, trial_readers):
        monkeypatch.setattr(module, "_PROC", tmp_path / "proc")
    reader = FilesReader(cast("Any", SimpleNamespace(pids=lambda: (7, 8))))

    def show(pid: int, read: int, *names: str) -> None:
        process = tmp_path / "proc" / str(pid)
        for folder in ("fd", "fdinfo", f"task/{pid}"):
            (process / folder).mkdir(parents=True, exist_ok=True)
        for number, name in enumerate(names):
            (process / "fdinfo" / str(number)).write_text("pos:\t0\nflags:\t0100000\n")
            (process / "fd" / str(number)).unlink(missing_ok=True)
            (process / "fd" / str(number)).symlink_to(files[name])
        for io in (process / "io", process / "task" / str(pid) / "io"):
            io.write_text(f"rchar: {read}\nwchar: 9\n")

    for reads in ((500, 40), (1500, 100)):
        show(7, reads[0], "read", "both")
        show(8, reads[1], "read")
        reader.poll()
    sizes = {files["read"]: MIB, files["both"]: 3 * MIB}
    assert list(reader._read_bytes(sizes).values()) == [250 + 60, 750]
    show(9, 1700)
    reader.end(9)
    assert list(reader._read_bytes(sizes).values()) == [275 + 60, 825]
