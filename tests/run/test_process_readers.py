"""Readers of processes: maps, files, with a clock and a ``/proc`` that the test makes."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from edgebench.cgroups import process_files
from edgebench.cgroups.interface import Cgroup, Counters
from edgebench.cgroups.process_files import LEAST_BYTES, MappedFiles
from edgebench.cgroups.sampler import SAME_BYTES
from edgebench.cgroups.v2 import SOURCES
from edgebench.run.trial import readers, trial_readers
from edgebench.run.trial.readers import Finished, MapsReader, MapsReadings
from edgebench.run.trial.trial_readers import FilesReader

MIB = 1 << 20
FINISHED = Finished(Counters(), None)


class Group:
    """A group of one process; at each reading its ``memory.stat`` has the next MiB in its list.

    They are of mapped files and of shared memory. Without any there is no such file.
    """

    sources = SOURCES

    def __init__(self, folder: Path, *charged: tuple[int, int]) -> None:
        self._file, self._left = folder / "memory.stat", list(charged)

    def pids(self) -> tuple[int, ...]:
        """The test's own process."""
        return (os.getpid(),)

    def file(self, controller: str, name: str) -> Path | None:
        """The statistics."""
        if not self._left:
            return None
        mapped, shared = self._left.pop(0)
        sizes = f"shmem {shared * MIB}\nfile_mapped {mapped * MIB}\n"
        self._file.write_text(f"anon 100\nfile 50\n{sizes}")
        return self._file


class Watched:
    """A reader of such a group, of which the test says what is mapped when; a look takes 1 ms."""

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
        """What it saw so far."""
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
    """Another cgroup read them first."""
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
    """Files of the least size that counts, and one that is a byte smaller."""
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
