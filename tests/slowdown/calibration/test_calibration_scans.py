"""Real scans in real cgroups: what fits stays, what doesn't comes back, all counted."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgebench.errors import MachineError
from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.calibration import runtime_bytes, scan_file
from edgebench.run.trial.controllers import ROOM
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import Session, open_session
from edgebench.run.trial.trial import TrialFiles, run_trial
from edgebench.slowdown.calibration import Scan
from edgebench.workloads.microbenchmarks import ScannedArea
from edgebench.workloads.recorder import FROZEN

MIB = 1 << 20
LIMIT = 32 * MIB


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with open_session(interval_s=0.02, stat_interval_s=0.02) as session:
        yield session


@pytest.fixture(scope="module")
def scanned() -> Iterator[Path]:
    """A file on a disk: the folder for temporary files may be in RAM."""
    disk = Path("/var/tmp")
    if os.major(disk.stat().st_dev) == 0:
        pytest.skip(f"{disk} is on no disk")
    folder = Path(tempfile.mkdtemp(prefix="scan-", dir=disk))
    try:
        yield scan_file(folder, 48 * MIB)
    finally:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


def area(passes: list[str], size_bytes: int, file: Path | None = None) -> dict[str, Any]:
    return {
        "of": "file" if file else "anon",
        "planned_share": 1.0,
        "size_bytes": size_bytes,
        "file": str(file) if file else None,
        "disk": None,
        "passes": passes,
        "seed": 1,
    }


def trial(
    session: Session, tmp_path: Path, settings: dict[str, Any], limits: LimitSetting
) -> TrialRecord:
    session.swap.use(limits.swap_kind, limits.swap_bytes)
    files = TrialFiles(tmp_path / "s.npz", tmp_path / "e.gz", tmp_path / "log", tmp_path)
    record = run_trial(session.setup, TrialRequest("0001", "p", 0, 0, settings, limits, 60), files)
    assert record.outcome == "ok", record.reason
    return record


def scan(
    session: Session, tmp_path: Path, *areas: dict[str, Any], swap_kind: str = "none"
) -> list[Scan]:
    limits = LimitSetting("32M", LIMIT, swap_kind, None if swap_kind == "none" else 256 * MIB)
    settings = {"kind": "scan", "gc": FROZEN, "areas": list(areas)}
    try:
        return passes_of(trial(session, tmp_path, settings, limits))
    except MachineError as error:
        pytest.skip(error.what)


def passes_of(record: TrialRecord) -> list[Scan]:
    return [Scan(block=0, **made) for made in record.notes["passes"]]


@pytest.mark.own_cgroup
def test_what_fits_stays(session: Session, tmp_path: Path):
    passes = ["touch", "fill", "read", "write", "random"]
    made = scan(session, tmp_path, area(passes, 16 * MIB))
    assert [s.what for s in made] == passes
    assert all(s.resident_bytes == s.size_bytes == 16 * MIB for s in made)
    assert all(s.major_faults <= 2 for s in made)
    assert all(s.seconds > 0 for s in made)


@pytest.mark.own_cgroup
@pytest.mark.swap
@pytest.mark.parametrize("swap_kind", ["file", "zram"])
def test_what_does_not_fit_comes_back_from_swap(session: Session, tmp_path: Path, swap_kind: str):
    passes = ["fill", "read", "read", "write", "random"]
    made = scan(session, tmp_path, area(passes, 64 * MIB), swap_kind=swap_kind)
    fill, _, settled, write, by_chance = made
    assert fill.out_bytes > 20 * MIB
    assert settled.in_bytes > 0.4 * settled.touched_bytes
    assert settled.major_faults > 0.4 * 64 * MIB / mmap.PAGESIZE / 64
    assert write.in_bytes > 20 * MIB
    assert write.out_bytes > 10 * MIB
    assert by_chance.touched_bytes == 2048 * mmap.PAGESIZE
    assert all(s.resident_bytes < LIMIT for s in made)
    assert settled.size_bytes > 2 * settled.resident_bytes


@pytest.mark.own_cgroup
def test_a_cold_file_comes_from_the_disk(session: Session, tmp_path: Path, scanned: Path):
    passes = ["copy", "map", "read", "read", "random"]
    made = scan(session, tmp_path, area(passes, 48 * MIB, scanned))
    copied, mapped, _, again, by_chance = made
    assert copied.touched_bytes == 48 * MIB
    assert copied.in_bytes >= 48 * MIB
    assert mapped.in_bytes >= 48 * MIB
    assert again.in_bytes > 0.3 * again.touched_bytes
    assert by_chance.major_faults > 1900


@pytest.mark.own_cgroup
@pytest.mark.swap
def test_an_area_leaves_nothing_to_the_next(session: Session, tmp_path: Path, scanned: Path):
    """After memory and a file that don't fit, one that fits has all of the room.

    What the file left in the page cache would be reclaimed first, and that would count as the cost
    of the first touch: nothing is left of it.
    """
    fits = area(["touch", "fill", "read"], 20 * MIB)
    wide = area(["fill", "read"], 56 * MIB), area(["copy", "map", "read"], 48 * MIB, scanned)
    made = scan(session, tmp_path, *wide, fits, swap_kind="file")
    assert [(s.of, s.size_bytes // MIB) for s in made] == [
        *[("anon", 56)] * 2,
        *[("file", 48)] * 3,
        *[("anon", 20)] * 3,
    ]
    assert [s.number for s in made if s.what == "read"] == [0, 0, 0]
    assert all(s.resident_bytes == 20 * MIB for s in made[-3:])
    left = ScannedArea(area([], 48 * MIB, scanned))
    assert left.resident_bytes() < MIB
    left.close()


@pytest.mark.own_cgroup
@pytest.mark.long
def test_the_runtime_is_limited_to_its_own_size(session: Session, tmp_path: Path):
    """Imported without a limit, then held to what it uses; without swap `calibrate` shows it."""
    about = area(["fill", "read"], 0) | {"size_bytes": None, "planned_share": 1.05}
    settings = {"kind": "hot-base", "gc": FROZEN, "area": about | {"of": "pressed"}, ROOM: 0}
    try:
        record = trial(session, tmp_path, settings, LimitSetting("max", None, "file", 1 << 30))
    except MachineError as error:
        pytest.skip(error.what)
    assert record.limit_bytes is not None
    assert record.demand_bytes is None
    base, hot = runtime_bytes(record)
    assert abs(record.limit_bytes - base) < 4 * MIB
    made = passes_of(record)
    assert {s.of for s in made} == {"pressed"}
    assert made[0].size_bytes == pytest.approx(1.05 * record.limit_bytes, rel=0.01)
    assert made[-1].in_bytes > 50 * MIB
    assert 0 < hot < 0.7 * base


def test_an_area_holds_what_was_written():
    memory = ScannedArea(area([], 4 * MIB))
    assert memory.fill() == memory.read() == 4 * MIB
    pages = {bytes(memory._view[at : at + mmap.PAGESIZE]) for at in range(0, MIB, mmap.PAGESIZE)}
    assert len(pages) == MIB // mmap.PAGESIZE
    assert memory.resident_bytes() == 4 * MIB
    memory.close()


def test_the_scanned_file_is_kept(tmp_path: Path):
    path = scan_file(tmp_path / "cache" / "scan", MIB)
    first = path.read_bytes()
    assert scan_file(path.parent, MIB).read_bytes() == first
    path.write_bytes(b"torn")
    assert scan_file(path.parent, MIB).stat().st_size == MIB


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path):
    (tmp_path / "cache").write_text("")
    with pytest.raises(MachineError, match="the file to scan") as told:
        scan_file(tmp_path / "cache" / "scan", MIB)
    assert "EDGEBENCH_CACHE" in str(told.value.remedy)
