"""Real scans in real cgroups: what fits stays, what doesn't comes back, all counted."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgebench.errors import MachineError, WorkloadError
from edgebench.records import LimitSetting
from edgebench.run.calibration import scans_of
from edgebench.run.calibration_points import scan_file
from edgebench.run.session import Session, open_session
from edgebench.run.trial import TrialFiles, run_trial
from edgebench.run.trial_record import TrialRequest
from edgebench.slowdown.calibration.scans import Scan
from edgebench.workloads.pages import Area
from edgebench.workloads.recorder import Recorder
from edgebench.workloads.scan import run_scan

MIB = 1 << 20
LIMIT = 32 * MIB


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """The real setup."""
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


def scan(
    session: Session,
    tmp_path: Path,
    passes: list[str],
    size_bytes: int,
    swap_kind: str = "none",
    file: Path | None = None,
) -> list[Scan]:
    """The passes of one trial below the limit."""
    settings: dict[str, Any] = {
        "kind": "scan",
        "disk": None,
        "of": "file" if file else "anon",
        "planned_share": 1.0,
        "size_bytes": size_bytes,
        "file": str(file) if file else None,
        "passes": passes,
        "seed": 1,
        "runtime": False,
    }
    swap_bytes = None if swap_kind == "none" else 256 * MIB
    session.swap.use(swap_kind, swap_bytes)
    limits = LimitSetting("32M", LIMIT, swap_kind, swap_bytes)
    files = TrialFiles(tmp_path / "s.npz", tmp_path / "e.gz", tmp_path / "log", tmp_path)
    request = TrialRequest("0001", "p", 0, 0, settings, limits, 60)
    record = run_trial(session.setup, request, files)
    assert record.outcome == "ok", record.reason
    return scans_of(record)


@pytest.mark.cgroup
def test_what_fits_stays(session: Session, tmp_path: Path):
    """Below the limit all of it is resident, no fault waits for a disk."""
    made = scan(session, tmp_path, ["touch", "fill", "read", "write", "random"], 16 * MIB)
    assert [s.what for s in made] == ["touch", "fill", "read", "write", "random"]
    assert all(s.resident_bytes == s.size_bytes == 16 * MIB for s in made)
    assert all(s.major_faults <= 2 for s in made)
    assert all(s.seconds > 0 for s in made)


@pytest.mark.cgroup
@pytest.mark.swap
@pytest.mark.parametrize("swap_kind", ["file", "zram"])
def test_what_does_not_fit_comes_back_from_swap(session: Session, tmp_path: Path, swap_kind: str):
    """At twice the limit the fill goes out, and each pass brings most of it back."""
    passes = ["fill", "read", "read", "write", "random"]
    try:
        made = scan(session, tmp_path, passes, 64 * MIB, swap_kind)
    except MachineError as error:
        pytest.skip(error.what)
    fill, _, settled, write, by_chance = made
    assert fill.out_bytes > 20 * MIB
    assert settled.miss_share > 0.4
    assert settled.major_faults > 0.4 * 64 * MIB / mmap.PAGESIZE / 64
    assert write.in_bytes > 20 * MIB
    assert write.out_bytes > 10 * MIB
    assert by_chance.touched_bytes == 2048 * mmap.PAGESIZE
    assert all(s.resident_bytes < LIMIT for s in made)
    assert settled.share > 2


@pytest.mark.cgroup
def test_a_cold_file_comes_from_the_disk(session: Session, tmp_path: Path, scanned: Path):
    """Evicted, all of it is read again; by chance, one page a fault."""
    passes = ["copy", "map", "read", "read", "random"]
    copied, mapped, _, again, by_chance = scan(session, tmp_path, passes, 48 * MIB, file=scanned)
    assert copied.touched_bytes == 48 * MIB
    assert copied.in_bytes >= 48 * MIB
    assert mapped.in_bytes >= 48 * MIB
    assert again.miss_share > 0.3
    assert by_chance.major_faults > 1900


@pytest.mark.cgroup
def test_a_warm_file_stays(session: Session, tmp_path: Path, scanned: Path):
    """The tail of a file that fits is read from the disk once only."""
    mapped, _, again = scan(session, tmp_path, ["map", "read", "read"], 8 * MIB, file=scanned)
    assert mapped.in_bytes >= 8 * MIB
    assert again.resident_bytes == 8 * MIB
    assert again.major_faults == 0


def test_an_area_holds_what_was_written():
    """Pages are filled with bytes of their own, no two alike; reading copies all."""
    area = Area(4 * MIB)
    assert area.fill() == area.read() == 4 * MIB
    pages = {bytes(area._view[at : at + mmap.PAGESIZE]) for at in range(0, MIB, mmap.PAGESIZE)}
    assert len(pages) == MIB // mmap.PAGESIZE
    assert area.resident_bytes() == 4 * MIB
    area.close()


def test_fresh_memory_is_not_resident():
    """Memory never touched takes no RAM; a byte a page brings it in."""
    area = Area(4 * MIB)
    assert area.resident_bytes() == 0
    assert area.touch() == 4 * MIB
    assert area.resident_bytes() == 4 * MIB
    area.close()


def test_an_unknown_pass_is_refused():
    """A scan asked for what it can't do says what it can."""
    settings = {"size_bytes": MIB, "file": None, "disk": None, "passes": ["hop"]}
    settings |= {"seed": 1, "runtime": False}
    with pytest.raises(WorkloadError, match="no pass 'hop'") as told:
        run_scan(settings, Recorder())
    assert "fill" in str(told.value.remedy)


def test_the_scanned_file_is_kept(tmp_path: Path):
    """A whole file is used again; one of another size is made anew."""
    path = scan_file(tmp_path / "cache" / "scan", MIB)
    first = path.read_bytes()
    assert scan_file(path.parent, MIB).read_bytes() == first
    path.write_bytes(b"torn")
    assert scan_file(path.parent, MIB).stat().st_size == MIB


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path):
    """A file where the cache's folder should be is a clear error."""
    (tmp_path / "cache").write_text("")
    with pytest.raises(MachineError, match="the file to scan") as told:
        scan_file(tmp_path / "cache" / "scan", MIB)
    assert "EDGEBENCH_CACHE" in str(told.value.remedy)
