"""Whether a disk is held to its declared speed, decided from injected readings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgebench.boards import parse_storage
from edgebench.cgroups import storage
from edgebench.cgroups.files import DiskLimit
from edgebench.cgroups.storage import ProbeResult, SpeedProof, prove_storage
from edgebench.errors import CgroupError

MB = 1_000_000
FAST = ProbeResult(2000 * MB, 500_000)


def reading(megabytes_per_s: float, iops: float = 10_000) -> ProbeResult:
    return ProbeResult(megabytes_per_s * MB, iops)


def proof(own: float, held: float, declared: float) -> SpeedProof:
    return SpeedProof("read", "sequential", 1 << 17, reading(own), reading(held), declared * MB)


@pytest.mark.parametrize(
    ("own", "held", "declared", "off"),
    [
        (2000, 100, 100, 0.0),
        (2000, 112, 100, 0.12),
        (2000, 88, 100, 0.12),
        (125, 80, 100, 0.2),
        # The disk by itself is hardly faster: too slow is not the fault of what holds it.
        (124, 80, 100, 0.0),
        (124, 112, 100, 0.12),
    ],
)
def test_how_far_a_held_speed_is_off(own: float, held: float, declared: float, off: float) -> None:
    """In both directions where the disk is clearly faster by itself, else only above it."""
    assert proof(own, held, declared).off == pytest.approx(off)


class Disk:
    """Answers probes: ``own`` as it is, then each of ``held`` in turn, the last one for ever."""

    def __init__(self, own: ProbeResult, *held: ProbeResult) -> None:
        self.own, self.held, self.asked = own, list(held), 0

    def probe(
        self, parent: object, limit: DiskLimit | None, file: Path, words: list[str]
    ) -> list[ProbeResult]:
        if limit is None:
            return [self.own] * (len(words) - 1)
        self.asked += 1
        result = self.held.pop(0) if len(self.held) > 1 else self.held[0]
        return [result] * (len(words) - 1)


def prove(monkeypatch: pytest.MonkeyPatch, disk: Disk, declared: str) -> list[SpeedProof]:
    """What is found of a disk that answers so."""
    monkeypatch.setattr(storage, "probe", disk.probe)
    speed = parse_storage(declared)
    limit: Any = type("Limit", (), {"name": "disk", "speed": speed, "numbers": "7:0"})()
    return prove_storage(None, limit, Path("file"))  # type: ignore[arg-type]


@pytest.mark.parametrize("held", [91, 100, 109])
def test_a_disk_within_a_tenth_is_held(monkeypatch: pytest.MonkeyPatch, held: float) -> None:
    disk = Disk(FAST, reading(held))
    assert all(one.held.bps == held * MB for one in prove(monkeypatch, disk, "read=100MB/s"))
    assert disk.asked == 1


@pytest.mark.parametrize("held", [85, 115])
def test_a_disk_that_is_not_held_is_refused(monkeypatch: pytest.MonkeyPatch, held: float) -> None:
    disk = Disk(FAST, reading(held))
    with pytest.raises(CgroupError, match="15% off"):
        prove(monkeypatch, disk, "read=100MB/s")
    assert disk.asked == 3
    # The best of them is told.
    with pytest.raises(CgroupError, match="12% off"):
        prove(monkeypatch, Disk(FAST, reading(80), reading(88), reading(held)), "read=100MB/s")
    assert prove(monkeypatch, Disk(FAST, reading(held), reading(100)), "read=100MB/s")


@pytest.mark.parametrize(
    ("own", "declared", "can", "lower"),
    [
        (reading(90), "read=100MB/s", "by itself disk reads 90.0 MB/s", "read=72MB/s"),
        (reading(3.6864, 900), "read_iops=1000", "reads 900 times 4 KiB a second", "read_iops=720"),
    ],
)
def test_a_disk_slower_than_declared_is_named(
    monkeypatch: pytest.MonkeyPatch, own: ProbeResult, declared: str, can: str, lower: str
) -> None:
    with pytest.raises(CgroupError, match="slower than declared") as caught:
        prove(monkeypatch, Disk(own, own), declared)
    assert can in caught.value.what
    assert lower in str(caught.value.remedy)


@pytest.mark.parametrize(("iops", "fault"), [(1000, None), (1200, "20% off"), (800, "20% off")])
def test_a_rate_of_requests_is_proved_too(
    monkeypatch: pytest.MonkeyPatch, iops: float, fault: str | None
) -> None:
    disk = Disk(FAST, FAST)

    def probe(parent: object, limit: object, file: Path, words: list[str]) -> list[ProbeResult]:
        if limit is None:
            return [FAST] * (len(words) - 1)
        sizes = (int(word.split(":")[1]) for word in words[1:])
        return [ProbeResult(iops * size, iops) for size in sizes]

    monkeypatch.setattr(disk, "probe", probe)
    if fault is None:
        assert prove(monkeypatch, disk, "read_iops=1000")
        return
    with pytest.raises(CgroupError, match=fault):
        prove(monkeypatch, disk, "read_iops=1000")


def test_each_way_is_held_to_the_tighter_of_two_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(FAST, FAST)

    def probe(parent: object, limit: object, file: Path, words: list[str]) -> list[ProbeResult]:
        sizes = (int(word.split(":")[1]) for word in words[1:])
        rates = (min(100 * MB, 1000 * size) for size in sizes)
        return [FAST if limit is None else ProbeResult(rate, 1000) for rate in rates]

    monkeypatch.setattr(disk, "probe", probe)
    proofs = prove(monkeypatch, disk, "read=100MB/s,read_iops=1000")
    assert [one.declared_bps for one in proofs[:2]] == [100 * MB, 4096 * 1000]
