"""A device's constants: recovered from scans whose costs are known, and kept in a file."""

from __future__ import annotations

import json
import mmap
import random
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from verb_making import calibration
from verb_making import constant as roughly

from edgebench.boards import StorageSpeed, parse_storage
from edgebench.errors import EdgebenchError, MachineError
from edgebench.slowdown.calibration import (
    FITS,
    SCHEMA,
    WIDE,
    Block,
    Calibration,
    Constant,
    HeldRates,
    Scan,
    calibration_warnings,
    constant,
    constants_of,
    load_calibration,
    save_calibration,
)


@pytest.mark.parametrize("keeps_slots", [True, False])
def test_costs_of_swap_are_recovered(keeps_slots: bool):
    made = Device(keeps_slots=keeps_slots)
    costs = made.in_s, made.out_s, made.fault_s
    assert Block(made.scans()).swap_costs() == pytest.approx(costs, rel=0.02)


def test_noise_moves_them_little():
    """With times off by 3 % each cost is right within a fifth, and the spread says it."""
    made = Device(noise=0.03)
    scans = [scan for n in range(5) for scan in made.scans(n)]
    found = constants_of(scans, [1.0], [1.0], swaps=True)
    rate = found["swap_in_bytes_per_s"]
    assert rate is not None
    assert rate.low < rate.value < rate.high
    assert rate.value == pytest.approx(1 / made.in_s, rel=0.2)


def test_without_read_ahead_a_fault_is_the_kernels_work():
    """One page a fault in any order: what can't be parted goes to the transfer, and sums up."""
    made = Device(rho=1.0, fault_s=20e-6)
    in_s, _, fault_s = Block(made.scans()).swap_costs()
    assert fault_s == pytest.approx(made.minor_s)
    assert in_s * PAGE + fault_s == pytest.approx(made.in_s * PAGE + made.fault_s, rel=0.02)


def test_the_constants_give_a_scan_its_time_back():
    """What docs promise: in order, F / rate + F / (page · ρ) · fault is the time beyond RAM."""
    scans = Device().scans()
    found = constants_of(scans, [1.0], [1.0], swaps=True)
    names = ("swap_in_bytes_per_s", "pages_per_fault", "fault_s")
    rate, pages, fault_s = (one.value for name in names if (one := found[name]))
    scan = Block(scans).settled()[-1]
    missed_s = scan.in_bytes / rate + scan.in_bytes / (PAGE * pages) * fault_s
    assert missed_s == pytest.approx(scan.seconds - scan.touched_bytes * Device().ram_s, rel=0.02)


def test_files_are_recovered():
    scans = Device().scans()
    found = constants_of(scans, [1.0], [1.0], swaps=False)
    fault_s = Block(scans).file_fault_s()
    assert fault_s == pytest.approx(50e-6, rel=0.02)
    assert found["swap_in_bytes_per_s"] is None
    for name, unit, value in (
        ("file_read_bytes_per_s", "bytes/s", pytest.approx(1e9)),
        ("fault_s", "s", fault_s),
        ("file_fault_bytes_per_s", "bytes/s", pytest.approx(1 / 1.5e-9, rel=0.05)),
        ("file_pages_per_fault", "pages", pytest.approx(32, rel=0.02)),
    ):
        assert found[name] == Constant(value, value, value, unit, 1)


def test_requests_are_counted():
    """Bytes that came in ÷ reads of the disk: a page from swap, 32 of a file."""
    pages = {"anon": 1, "file": 32}
    scans = [
        replace(s, requests=s.in_bytes // (PAGE * pages[s.of]) or None) for s in Device().scans()
    ]
    found = constants_of(scans, [1.0], [1.0], swaps=True)
    assert found["swap_request_bytes"] == Constant(PAGE, PAGE, PAGE, "bytes", 1)
    assert found["file_request_bytes"] == constant("bytes", [pytest.approx(32 * PAGE, rel=0.02)])


def test_a_file_in_ram_is_refused():
    """A cache folder in RAM would pass for an endlessly fast disk."""
    scans = [replace(s, in_bytes=0) if s.of == "file" else s for s in Device().scans()]
    with pytest.raises(MachineError, match="never came from a disk"):
        constants_of(scans, [1.0], [1.0], swaps=True)


def test_a_noisy_machine_is_told_with_numbers():
    busy = {"foreign_cpu_share": 0.4, "steal_share": 0.1, "throttled_events": 2}
    told = calibration_warnings({}, [busy, busy, {"foreign_cpu_share": None}])
    assert [word in " ".join(told) for word in ("40%", "10%", "4 events")] == [True] * 3
    assert calibration_warnings({}, [{"foreign_cpu_share": 0.01, "steal_share": 0.0}]) == []


def test_a_wide_spread_is_told_of_times_only():
    wide = Constant(1.0, 0.6, 1.4, "s", 5)
    pages = Constant(10.0, 1.0, 30.0, "pages", 5)
    known = {"fault_s": wide, "pages_per_fault": pages, "swap_in": None}
    (told,) = calibration_warnings(known, [])
    assert "fault_s spreads from 0.6 to 1.4" in told
    assert calibration_warnings({"fault_s": roughly(1.0, "s")}, []) == []


PAGE = mmap.PAGESIZE
FRAMES = 1000


class LruMemory:
    """So many frames, of which the page used longest ago is dropped."""

    def __init__(self, frames: int) -> None:
        self._frames = frames
        self._pages: OrderedDict[int, None] = OrderedDict()

    def touch(self, page: int) -> bool:
        missing = page not in self._pages
        if missing and len(self._pages) == self._frames:
            self._pages.popitem(last=False)
        self._pages[page] = None
        self._pages.move_to_end(page)
        return missing


@dataclass(frozen=True)
class Device:
    """What it costs. ``rho`` pages come in by a fault in order; by chance, 1."""

    in_s: float = 2e-9
    out_s: float = 3e-9
    fault_s: float = 80e-6
    rho: float = 8.0
    ram_s: float = 1e-10
    minor_s: float = 1e-6
    noise: float = 0.0
    keeps_slots: bool = True

    def scans(self, number: int = 0) -> list[Scan]:
        rng = random.Random(number)
        scans = self._anon(number, FITS, ["touch", "fill", "read", "read", "write", "random"])
        scans += self._anon(number, WIDE, ["fill", "read", "read", "write", "random"])
        scans += self._file(number)
        return [
            replace(scan, seconds=scan.seconds * (1 + self.noise * rng.gauss(0, 1)))
            for scan in scans
        ]

    def _anon(self, block: int, share: float, names: list[str]) -> list[Scan]:
        pages, memory = int(share * FRAMES), LruMemory(FRAMES)
        for page in range(pages):
            memory.touch(page)
        counts: dict[str, int] = {}
        made = []
        for name in names:
            order = list(range(pages))
            if name == "random":
                order = random.Random(block).sample(order, pages // 4)
            missed = sum(memory.touch(page) for page in order)
            came = 0 if name in ("touch", "fill") else missed
            faults = came / (1 if name == "random" else self.rho)
            dirty = name in ("write", "fill") or not self.keeps_slots
            out = max(0, pages - FRAMES) if name == "fill" else came * dirty
            if name == "touch":
                # One byte a page: the kernel's work alone.
                out, seconds = 0, pages * self.minor_s
            else:
                seconds = len(order) * PAGE * self.ram_s + came * PAGE * self.in_s
                seconds += out * PAGE * self.out_s + faults * self.fault_s
                seconds += pages * self.minor_s * (name == "fill" and share > FITS)
            sizes = (pages * PAGE, min(pages, FRAMES) * PAGE, len(order) * PAGE)
            number = counts[name] = counts.get(name, -1) + 1
            moved = (came * PAGE, out * PAGE, round(faults))
            made.append(Scan(block, "anon", share, name, number, *sizes, seconds, *moved))
        return made

    def _file(self, block: int) -> list[Scan]:
        """A file: 1 ns a byte read, 1.5 ns mapped, 32 pages and 50 µs a fault."""
        size = int(WIDE * FRAMES) * PAGE
        sizes = (size, FRAMES * PAGE, size)
        faults, few = int(WIDE * FRAMES) // 32, 250
        warm = (FRAMES * PAGE * self.ram_s, 0, 0, 0)
        fits = int(FITS * FRAMES) * PAGE
        by_chance = few * (PAGE * (1.5e-9 + self.ram_s) + 50e-6)
        mapped = size * (1.5e-9 + self.ram_s) + faults * 50e-6
        return [
            Scan(block, "file", FITS, "read", 1, fits, fits, FRAMES * PAGE, *warm),
            Scan(block, "file", WIDE, "copy", 0, *sizes, size * 1e-9, size, 0, 0),
            Scan(block, "file", WIDE, "map", 0, *sizes, mapped, size, 0, faults),
            Scan(
                *(block, "file", WIDE, "random", 0, size, few * PAGE, few * PAGE),
                *(by_chance, few * PAGE, 0, few),
            ),
        ]


SCAN = {"block": 0, "of": "anon", "planned_share": 2.0, "what": "read", "seconds": 0.5}


@pytest.mark.parametrize(
    "changes",
    [
        {"scans": (SCAN,), "warnings": ("noisy",), "environment": {"kernel": "6.1"}},
        # No swap is None, and not zero.
        {"swap_kind": "none", "swap_in_bytes_per_s": None, "swap_out_bytes_per_s": None},
    ],
)
def test_it_comes_back_as_it_was(tmp_path: Path, changes: dict[str, Any]):
    made = calibration(**changes)
    path = save_calibration(made, tmp_path)
    assert path == tmp_path / "board" / f"calibration-{made.swap_kind}.json"
    assert load_calibration(tmp_path, "board", made.swap_kind) == made
    # Keys that were added later are left out.
    path.write_text(json.dumps({**made.to_json(), "new": 1}))
    assert load_calibration(tmp_path, "board", made.swap_kind) == made


def test_a_device_never_calibrated_is_told_how(tmp_path: Path):
    words = "no calibration of device board with swap of kind zram"
    with pytest.raises(MachineError, match=words) as told:
        load_calibration(tmp_path, "board", "zram")
    assert "edgebench calibrate --swap zram:1G --device board" in str(told.value.remedy)
    assert "calibration-zram.json" in str(told.value.where)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema": SCHEMA + 1}, f"schema {SCHEMA + 1}; this edgebench reads"),
        ({"fault_s": None}, "damaged: .*fault_s"),
        ({"fault_s": {"value": 1.0}}, "damaged: .*low"),
        ({"scans": 3}, "damaged"),
        ('{"schema": 1, "dev', "the calibration is damaged"),
        ({"device": "other"}, "this is the calibration of device"),
        ({"swap_kind": "zram"}, "this is the calibration of device"),
    ],
)
def test_damage_and_another_devices_file_are_refused(
    tmp_path: Path, change: dict[str, Any] | str, says: str
):
    path = save_calibration(calibration(), tmp_path)
    known = calibration().to_json()
    path.write_text(change if isinstance(change, str) else json.dumps({**known, **change}))
    with pytest.raises(EdgebenchError, match=says) as told:
        load_calibration(tmp_path, "board", "file")
    assert "calibrate" in str(told.value.remedy)


def counted(**changes: Any) -> Calibration:
    """Return a calibration that counted requests: a page from swap, 128 KiB of a file."""
    sizes = {"swap_request_bytes": 4096, "file_request_bytes": 131072}
    return calibration(**{k: roughly(v, "bytes") for k, v in sizes.items()}, **changes)


@pytest.mark.parametrize(
    ("storage", "swap", "files"),
    [
        ("read=100MB/s", 100e6, 100e6),
        # A page that is swapped in is a request, so requests hold swap long before files.
        ("read=100MB/s,read_iops=2000", 2000 * 4096, 100e6),
    ],
)
def test_the_slower_of_bytes_and_requests_holds(storage: str, swap: float, files: float) -> None:
    found = counted().held_to(parse_storage(storage))
    assert found.held == HeldRates(storage, swap, files)
    assert found.held_to(StorageSpeed()) == counted()


def test_nothing_else_is_held() -> None:
    assert counted().held_to(parse_storage("write=30MB/s")).held is None
    held = counted(swap_kind="zram").held_to(parse_storage("read=50MB/s")).held
    assert held == HeldRates("read=50MB/s", None, 50e6)


def test_files_of_schema_1_are_read(tmp_path: Path) -> None:
    """They have no bytes a request, which a speed in requests needs."""
    path = save_calibration(calibration(), tmp_path)
    new = ("swap_request_bytes", "file_request_bytes", "seen_share")
    old = {key: value for key, value in calibration().to_json().items() if key not in new}
    path.write_text(json.dumps({**old, "schema": 1}))
    found = load_calibration(tmp_path, "board", "file")
    assert (found.schema, found.swap_request_bytes, found.seen_share) == (1, None, None)
    with pytest.raises(MachineError, match="how many bytes one request has") as refused:
        found.held_to(parse_storage("read_iops=2000"))
    assert refused.value.remedy == "edgebench calibrate"
