"""Constants from scans: a device made up of known costs and a known rule is recovered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from device_made_up import PAGE, CyclicOptimalMemory, Device, LruMemory, Memory

from edgebench.cgroups.storage import DiskSpeed, ProbeResult
from edgebench.errors import MachineError
from edgebench.run.calibration import disk_constants
from edgebench.slowdown.calibration.constants import (
    constants_of,
    file_fault_s,
    lru,
    lru_share,
    optimal,
    swap_costs,
)
from edgebench.slowdown.calibration.device import Calibration, Constant, constant
from edgebench.slowdown.calibration.scans import WIDE, Block, Scan, blocks_of


def sizes(scan: Scan) -> tuple[np.ndarray, np.ndarray]:
    """What was scanned, and the room for it."""
    return np.array(float(scan.size_bytes)), np.array(float(scan.resident_bytes))


@pytest.mark.parametrize(("memory", "theory"), [(LruMemory, lru), (CyclicOptimalMemory, optimal)])
def test_simulated_pages_miss_what_theory_says(memory: type[Memory], theory):
    """Pages replaced one by one agree with each rule's formula, at every size."""
    for scan in Device(memory).block().cyclic("anon"):
        assert scan.miss_share == pytest.approx(float(theory(*sizes(scan))), abs=0.03), scan


@pytest.mark.parametrize(("memory", "theta"), [(LruMemory, 1.0), (CyclicOptimalMemory, 0.0)])
def test_theta_is_recovered_at_its_ends(memory: type[Memory], theta: float):
    """LRU is 1 and optimal replacement 0."""
    assert lru_share(Device(memory).block(), "anon") == pytest.approx(theta, abs=0.01)


@pytest.mark.parametrize("theta", [0.2, 0.5, 0.9])
def test_theta_is_recovered_between(theta: float):
    """A mixture of both gives its share back."""
    block = Device().block()
    shares = [
        theta * float(lru(*sizes(s))) + (1 - theta) * float(optimal(*sizes(s)))
        for s in block.cyclic("anon")
    ]
    mixture = [
        replace(s, in_bytes=round(share * s.touched_bytes))
        for s, share in zip(block.cyclic("anon"), shares, strict=True)
    ]
    assert lru_share(Block(tuple(mixture)), "anon") == pytest.approx(theta, abs=0.01)


def test_read_ahead_beyond_the_scan_is_not_more_than_lru():
    """More came in than was touched: θ stays 1."""
    block = Block(tuple(replace(s, in_bytes=2 * s.in_bytes) for s in Device().block().scans))
    assert lru_share(block, "anon") == 1.0


def test_one_size_does_not_decide():
    """Just above what fits a kernel may keep a part for a while; θ says what it does mostly."""
    scans = [
        replace(s, in_bytes=s.in_bytes // 4) if s.planned_share == 1.1 else s
        for s in Device().block().scans
    ]
    assert lru_share(Block(tuple(scans)), "anon") == 1.0


@pytest.mark.parametrize("keeps_slots", [True, False])
def test_costs_of_swap_are_recovered(keeps_slots: bool):
    """In, out and fault are told apart, also where clean pages go out again, as in zram."""
    made = Device(keeps_slots=keeps_slots)
    found = swap_costs(made.block())
    assert found.in_s == pytest.approx(made.in_s, rel=0.02)
    assert found.out_s == pytest.approx(made.out_s, rel=0.02)
    assert found.fault_s == pytest.approx(made.fault_s, rel=0.02)


def test_noise_moves_them_little():
    """With times off by 3 % each cost is right within a fifth, and the spread says it."""
    made = Device(noise=0.03)
    found = constants_of([made.block(n) for n in range(5)], [1.0], [1.0], swaps=True)
    rate = found["swap_in_bytes_per_s"]
    assert rate is not None
    assert rate.low < rate.value < rate.high
    assert rate.value == pytest.approx(1 / made.in_s, rel=0.2)


def test_without_read_ahead_a_fault_is_the_kernels_work():
    """One page a fault in any order: what can't be parted goes to the transfer, and sums up."""
    made = Device(rho=1.0, fault_s=20e-6)
    found = swap_costs(made.block())
    assert found.fault_s == pytest.approx(made.minor_s)
    assert found.in_s * PAGE + found.fault_s == pytest.approx(
        made.in_s * PAGE + made.fault_s, rel=0.02
    )


def test_the_constants_give_a_scan_its_time_back():
    """What docs promise: in order, F / rate + F / (page · ρ) · fault is the time beyond RAM."""
    block = Device(noise=0.0).block()
    found = constants_of([block], [1.0], [1.0], swaps=True)
    scan = block.settled("anon", WIDE)[-1]
    assert predicted(found, scan.in_bytes) == pytest.approx(
        scan.seconds - scan.touched_bytes * Device().ram_s, rel=0.02
    )


def predicted(found: dict[str, Constant | None], missed_bytes: int) -> float:
    """Seconds of so many bytes coming back in order."""
    rate, pages, fault = (
        found[name] for name in ("swap_in_bytes_per_s", "pages_per_fault", "fault_s")
    )
    assert rate
    assert pages
    assert fault
    return missed_bytes / rate.value + missed_bytes / (PAGE * pages.value) * fault.value


def test_files_are_recovered():
    """Rates of reading and mapping, pages per fault, and without swap a fault's own time."""
    block = Device().block()
    found = constants_of([block], [1.0], [1.0], swaps=False)
    assert found["swap_in_bytes_per_s"] is None
    assert found["file_read_bytes_per_s"] == constant("bytes/s", [pytest.approx(1e9)])
    assert file_fault_s(block) == pytest.approx(50e-6, rel=0.02)
    assert found["fault_s"] == constant("s", [file_fault_s(block)])
    rate, pages = found["file_fault_bytes_per_s"], found["file_pages_per_fault"]
    assert rate
    assert pages
    assert rate.value == pytest.approx(1 / 1.5e-9, rel=0.05)
    assert pages.value == pytest.approx(32, rel=0.02)
    assert found["lru_share"] == Constant(1.0, 1.0, 1.0, "share", 1)


def test_every_constant_is_there():
    """Their names are the calibration's own."""
    found = constants_of([Device().block()], [5.0], [3.0], swaps=True)
    found |= disk_constants([DiskSpeed(*[ProbeResult(2e8, 5e4, 1e-4)] * 3)])
    found["held_share"] = found["seen_share"] = None
    fields = Calibration.__dataclass_fields__.values()
    assert set(found) == {f.name for f in fields if "Constant" in str(f.type)}
    assert found["request_s"] == Constant(1e-4, 1e-4, 1e-4, "s", 1)
    assert found["base_bytes"] == Constant(5.0, 5.0, 5.0, "bytes", 1)


def test_a_file_in_ram_is_refused():
    """A cache folder in RAM would pass for an endlessly fast disk."""
    scans = [replace(s, in_bytes=0) if s.of == "file" else s for s in Device().block().scans]
    with pytest.raises(MachineError, match="never came from a disk"):
        constants_of([Block(tuple(scans))], [1.0], [1.0], swaps=True)


def test_a_limit_that_does_not_hold_is_told():
    """If every scan fits, nothing can be said of reclaim."""
    scans = [replace(s, resident_bytes=s.size_bytes) for s in Device().block().scans]
    with pytest.raises(MachineError, match="doesn't hold"):
        lru_share(Block(tuple(scans)), "anon")


def test_blocks_are_told_apart():
    """Scans of several blocks come back by block."""
    blocks = [Device().block(n) for n in range(3)]
    again = blocks_of([scan for block in reversed(blocks) for scan in block.scans])
    assert again == blocks
