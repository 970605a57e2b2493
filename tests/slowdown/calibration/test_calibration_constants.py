"""Constants from scans: a device made up of known costs and a known rule is recovered."""

from __future__ import annotations

from dataclasses import replace

import pytest
from device_made_up import PAGE, Device
from verb_making import constant as roughly

from edgebench.errors import MachineError
from edgebench.slowdown.calibration import (
    Block,
    Constant,
    calibration_warnings,
    constant,
    constants_of,
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
    scan = Block(scans).settled()[-1]
    assert predicted(found, scan.in_bytes) == pytest.approx(
        scan.seconds - scan.touched_bytes * Device().ram_s, rel=0.02
    )


def predicted(found: dict[str, Constant | None], missed_bytes: int) -> float:
    rate, pages, fault = (
        found[name] for name in ("swap_in_bytes_per_s", "pages_per_fault", "fault_s")
    )
    assert rate
    assert pages
    assert fault
    return missed_bytes / rate.value + missed_bytes / (PAGE * pages.value) * fault.value


def test_files_are_recovered():
    scans = Device().scans()
    found = constants_of(scans, [1.0], [1.0], swaps=False)
    assert found["swap_in_bytes_per_s"] is None
    assert found["file_read_bytes_per_s"] == constant("bytes/s", [pytest.approx(1e9)])
    assert Block(scans).file_fault_s() == pytest.approx(50e-6, rel=0.02)
    assert found["fault_s"] == constant("s", [Block(scans).file_fault_s()])
    rate, pages = found["file_fault_bytes_per_s"], found["file_pages_per_fault"]
    assert rate
    assert pages
    assert rate.value == pytest.approx(1 / 1.5e-9, rel=0.05)
    assert pages.value == pytest.approx(32, rel=0.02)


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
