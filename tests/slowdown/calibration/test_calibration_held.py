"""Constants of storage that is held to a declared speed, from those of the storage as it is."""

from __future__ import annotations

import json
import mmap
from dataclasses import replace
from pathlib import Path

import pytest
from calibration_making import calibration, constant
from device_made_up import Device

from edgebench.boards.storage import StorageSpeed, parse_storage
from edgebench.errors import MachineError
from edgebench.slowdown.calibration.constants import constants_of, held_share, request_bytes
from edgebench.slowdown.calibration.device import (
    OF_STORAGE,
    Calibration,
    Constant,
    HeldRates,
    load_calibration,
    save_calibration,
)
from edgebench.slowdown.calibration.scans import WIDE, Scan, blocks_of

PAGE = mmap.PAGESIZE
RESULTS = Path(__file__).parents[3] / "results"
REACHED = Constant(0.99, 0.98, 1.0, "share", 4)


def counted(**changes: object) -> Calibration:
    """A calibration that counted requests: a page from swap, 128 KiB of a file."""
    made = {
        "swap_request_bytes": constant(PAGE, "bytes"),
        "file_request_bytes": constant(32 * PAGE, "bytes"),
        "held_share": REACHED,
    }
    return calibration(**{**made, **changes})


def test_bytes_are_held_to_what_is_declared() -> None:
    """Of swap and files alike; the interval is what held scans showed."""
    held = counted().held_to(parse_storage("read=100MB/s")).held
    rate = Constant(0.99e8, 0.98e8, 1e8, "bytes/s", 4)
    assert held == HeldRates("read=100MB/s", rate, rate)


def test_the_slower_of_bytes_and_requests_holds() -> None:
    """A page that is swapped in is a request, so requests hold swap long before files."""
    held = counted().held_to(parse_storage("read=100MB/s,read_iops=2000")).held
    assert held is not None
    assert held.swap_bytes_per_s is not None
    assert held.file_bytes_per_s is not None
    assert held.swap_bytes_per_s.value == pytest.approx(0.99 * 2000 * PAGE)
    assert held.swap_bytes_per_s.low == pytest.approx(0.98 * 2000 * 0.9 * PAGE)
    assert held.file_bytes_per_s.value == pytest.approx(0.99e8)


def test_nothing_else_is_held() -> None:
    """Not storage as it is, not zram, not reads where only writes are declared."""
    assert counted().held_to(StorageSpeed()).held is None
    assert counted().held_to(parse_storage("write=30MB/s")).held is None
    held = counted(swap_kind="zram").held_to(parse_storage("read=50MB/s")).held
    assert held is not None
    assert held.swap_bytes_per_s is None
    assert held.file_bytes_per_s is not None


def test_a_calibration_of_schema_1_knows_bytes_alone() -> None:
    """It tried no declared speed, so the interval is the proof's; of requests it says to repeat."""
    old = calibration()
    held = old.held_to(parse_storage("read=80MB/s")).held
    assert held is not None
    assert held.swap_bytes_per_s == Constant(80e6, 72e6, 88e6, "bytes/s", 0)
    with pytest.raises(MachineError, match="how many bytes one request has") as refused:
        old.held_to(parse_storage("read_iops=2000"))
    assert refused.value.remedy == "edgebench calibrate"


def test_files_of_schema_1_are_read() -> None:
    """Without the constants that came later: None; storing again loses nothing."""
    text = (RESULTS / "vm-2core-24g" / "calibration-file.json").read_text()
    data = {key: value for key, value in json.loads(text).items() if key not in OF_STORAGE}
    found = Calibration.from_json({**data, "schema": 1})
    assert [getattr(found, name) for name in OF_STORAGE] == [None] * len(OF_STORAGE)
    assert Calibration.from_json(found.to_json()) == found
    assert load_calibration(RESULTS, "vm-2core-24g", "file").swap_in_bytes_per_s is not None


def test_requests_are_counted() -> None:
    """Bytes that came in ÷ reads of the disk; passes of no disk don't count."""
    scans = [replace(s, requests=s.in_bytes // PAGE or None) for s in settled()]
    assert request_bytes(scans) == Constant(PAGE, PAGE, PAGE, "bytes", len(scans))
    assert request_bytes(settled()) is None


def settled() -> list[Scan]:
    """Passes in order of swapped memory, as it is: 2 ns a byte and 10 µs a page."""
    return Device(rho=8.0).block().settled("anon", WIDE)


@pytest.mark.parametrize(
    ("storage", "bps"), [("read=50MB/s", 50e6), ("read_iops=10000", 10000 * PAGE)]
)
def test_held_scans_show_what_is_reached(storage: str, bps: float) -> None:
    """Their speed ÷ the declared one, of bytes and of requests; the first pass doesn't count."""
    free = settled()
    slow = [
        replace(s, storage=storage, planned_share=1.25, seconds=s.in_bytes / (0.97 * bps))
        for s in free
    ]
    found = {"swap_request_bytes": constant(PAGE, "bytes")}
    shares = held_share([*free, *slow, replace(slow[0], number=0, seconds=9.0)], found)
    assert shares is not None
    assert (shares.value, shares.repeats) == (pytest.approx(0.97), len(slow))
    # What the disk by itself hardly exceeds is not held by the declared speed.
    assert held_share([*free, *(replace(s, storage="read=1GB/s") for s in slow)], found) is None
    # Held passes are no part of the blocks that constants come from.
    assert blocks_of(slow) == []


def test_held_scans_are_in_the_file_and_move_no_constant_of_the_storage_as_it_is(
    tmp_path: Path,
) -> None:
    """Each scan says its storage; the constants are those of a calibration without held scans."""
    free = Device().block().scans
    slow = [replace(s, storage="read=50MB/s", seconds=9 * s.seconds) for s in free]
    alone = constants_of(blocks_of(free), [1.0], [1.0], swaps=True)
    assert constants_of(blocks_of([*slow, *free]), [1.0], [1.0], swaps=True) == alone
    path = save_calibration(calibration(scans=(*slow, *free)), tmp_path)
    kept = json.loads(path.read_bytes())["scans"]
    assert [scan["storage"] for scan in kept] == ["read=50MB/s"] * len(slow) + ["as-is"] * len(free)
