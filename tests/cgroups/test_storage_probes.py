"""A disk's speed: what the probe asks for and counts, and what is decided from its readings."""

from __future__ import annotations

import json
import mmap
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from edgebench.boards import parse_storage
from edgebench.cgroups import probes, storage
from edgebench.cgroups.files import DiskLimit
from edgebench.cgroups.storage import ProbeResult, SpeedProof, prove_storage
from edgebench.errors import CgroupError

PAGE = mmap.PAGESIZE


class Clock:
    """Moves on by so much at each look, or to each of these moments and then far beyond."""

    def __init__(self, step_s: float = 0.01, at_s: Sequence[float] = ()) -> None:
        self._now_s, self._step_s, self._at_s = 0.0, step_s, list(at_s)

    def monotonic(self) -> float:
        if self._at_s:
            self._now_s = self._at_s.pop(0)
        else:
            self._now_s += self._step_s
        return self._now_s


class Alone:
    def __init__(self, target: Any) -> None:
        self.start = target

    def join(self) -> None:
        """It has ended."""


#: Way, bytes and place of each request; ``told``: what the probe prints of a file of this size.
Requests = list[tuple[str, int, int]]
Told = Callable[..., list[dict[str, float]]]


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    made: Requests = []

    def keep(how: str) -> Any:
        def request(descriptor: int, areas: list[Any], offset: int) -> int:
            made.append((how, sum(map(len, areas)), offset))
            assert how == "read" or any(bytes(areas[0]))
            return 0

        return request

    monkeypatch.setattr(os, "preadv", keep("read"))
    monkeypatch.setattr(os, "pwritev", keep("write"))
    monkeypatch.setattr(threading, "Thread", Alone)
    return made


@pytest.fixture
def told(
    requests: Requests,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Told:
    """Probe a file of so many bytes on this clock; what was printed."""
    real_open = os.open

    def run(size: int, clock: Clock, direction: str, *ways: str) -> list[dict[str, float]]:
        (tmp_path / "file").write_bytes(bytes(size))
        fd = os.open(tmp_path / "file", os.O_RDWR)
        rights = os.O_RDONLY if direction == "read" else os.O_RDWR

        def open_direct(path: str, flags: int) -> int:
            assert (path, flags) == (f"/proc/self/fd/{fd}", rights | os.O_DIRECT)
            return real_open(path, flags & ~os.O_DIRECT)

        with monkeypatch.context() as patch:
            patch.setattr(os, "open", open_direct)
            patch.setattr(probes, "time", clock)
            probes.main([str(fd), direction, *ways])
        os.close(fd)
        printed: list[dict[str, float]] = json.loads(capfd.readouterr().out)
        return printed

    return run


@pytest.mark.parametrize("direction", ["read", "write"])
def test_requests_go_past_the_page_cache_one_after_another(
    told: Told, requests: Requests, direction: str
) -> None:
    """From the file's start, then from its start again; what is left of it is never reached.

    A tenth of the time goes before requests count: of a second, 100 looks at the clock, two a
    request.
    """
    ways = [f"sequential:{PAGE}:1:{seconds}" for seconds in (1.0, 0.5)]
    found = told(3 * PAGE + 100, Clock(), direction, *ways)
    assert {(how, size) for how, size, _ in requests} == {(direction, PAGE)}
    assert [place for *_, place in requests[:5]] == [0, PAGE, 2 * PAGE, 0, PAGE]
    assert len(requests) == pytest.approx(55 + 27, abs=2)
    rate = {"iops": 50, "bps": 50 * PAGE}
    assert found == [pytest.approx(rate), pytest.approx(rate)]


def test_requests_anywhere_stay_within_the_file(told: Told, requests: Requests) -> None:
    told(16 * PAGE, Clock(), "read", f"random:{2 * PAGE}:4:0.5")
    places = [place for *_, place in requests]
    assert set(places) <= {number * 2 * PAGE for number in range(8)}
    assert places != sorted(places)
    assert len(set(places)) > 2


@pytest.mark.parametrize(
    ("at_s", "iops"),
    [
        # The slope of their number over time, by least squares: held requests end in bursts.
        ([0, 0.5, 1, 1, 2, 2, 2, 2, 3], 1.5),
        ([0, 0.5, 1, 1, 1.5, 1.5, 2], 2),
        # One that ended in the first tenth doesn't count; of fewer than two, or of all at once,
        # none is known; nor of a disk that is held to next to nothing.
        ([0, 0, 0.2, 0.5, 1], 0),
        ([0, 0.5, 1, 1, 1], 0),
        ([0], 0),
    ],
)
def test_a_rate_is_the_slope_of_requests_over_time(
    told: Told, at_s: list[float], iops: float
) -> None:
    (found,) = told(PAGE, Clock(1000, at_s), "read", f"sequential:{PAGE}:2:3")
    assert found == pytest.approx({"iops": iops, "bps": iops * PAGE})


MB = 1_000_000
FAST = ProbeResult(2000 * MB, 500_000)


def reading(megabytes_per_s: float, iops: float = 500_000) -> ProbeResult:
    return ProbeResult(megabytes_per_s * MB, iops)


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
    rates = reading(own), reading(held)
    proof = SpeedProof("read", "sequential", 1 << 17, *rates, declared * MB)
    assert proof.off == pytest.approx(off)


class Disk:
    """Answers probes: ``own`` as it is, then each of ``held`` in turn, the last one for ever.

    Each is the most bytes and requests a second.
    """

    def __init__(self, own: ProbeResult, *held: ProbeResult) -> None:
        self.own, self.held, self.asked = own, list(held), list[list[str]]()

    def probe(
        self, parent: object, limit: DiskLimit | None, file: Path, words: list[str]
    ) -> list[ProbeResult]:
        self.asked.append(words)
        most = self.own
        if limit is not None:
            most = self.held.pop(0) if len(self.held) > 1 else self.held[0]
        sizes = (int(word.split(":")[1]) for word in words[1:])
        return [ProbeResult(min(most.bps, most.iops * size), most.iops) for size in sizes]


def prove(monkeypatch: pytest.MonkeyPatch, disk: Disk, declared: str) -> list[SpeedProof]:
    """What is found of a disk that answers so."""
    monkeypatch.setattr(storage, "probe", disk.probe)
    limit = DiskLimit("7:0", "disk", parse_storage(declared))
    return prove_storage(None, limit, Path("file"))  # type: ignore[arg-type]


@pytest.mark.parametrize("held", [91, 100, 109])
def test_a_disk_within_a_tenth_is_held(monkeypatch: pytest.MonkeyPatch, held: float) -> None:
    disk = Disk(FAST, reading(held))
    proofs = prove(monkeypatch, disk, "read=100MB/s")
    assert [proof.held.bps for proof in proofs] == [held * MB] * 2
    assert len(disk.asked) == 2


@pytest.mark.parametrize("held", [85, 115])
def test_a_disk_that_is_not_held_is_refused(monkeypatch: pytest.MonkeyPatch, held: float) -> None:
    disk = Disk(FAST, reading(held))
    with pytest.raises(CgroupError, match="15% off"):
        prove(monkeypatch, disk, "read=100MB/s")
    assert len(disk.asked) == 6
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
    refused = pytest.raises(CgroupError, match=fault) if fault else nullcontext()
    with refused:
        prove(monkeypatch, Disk(FAST, reading(2000, iops)), "read_iops=1000")


def test_each_way_is_held_to_the_tighter_of_two_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    proofs = prove(monkeypatch, Disk(FAST, reading(100, 1000)), "read=100MB/s,read_iops=1000")
    assert [proof.declared_bps for proof in proofs] == [100 * MB, 4096 * 1000]


@pytest.mark.parametrize(
    ("declared", "held"),
    [
        # 60 requests of 128 KiB take 0.08 s at 100 MB/s: the least time.
        ("read=100MB/s", ["sequential:131072:4:0.6", "random:4096:4:0.6"]),
        # At 4 MB/s requests are smaller, or few would be made: 64 KiB less what makes no page.
        ("read=4MB/s", ["sequential:65536:4:0.98304", "random:4096:4:0.6"]),
        # 20 requests a second, whatever their size: 60 of them in three seconds.
        ("read_iops=20", ["sequential:131072:4:3.0", "random:4096:4:3.0"]),
        ("read_iops=10", ["sequential:131072:4:3.0", "random:4096:4:3.0"]),
    ],
)
def test_a_held_disk_is_read_until_its_rate_is_known(
    monkeypatch: pytest.MonkeyPatch, declared: str, held: list[str]
) -> None:
    """60 requests, in 0.6 to 3 seconds; as it is, for 0.3."""
    speed = parse_storage(declared)
    allowed = ProbeResult(speed.read_bps or 1e12, speed.read_iops or 1e9)
    disk = Disk(ProbeResult(1e12, 1e9), allowed)
    proofs = prove(monkeypatch, disk, declared)
    assert [words[0] for words in disk.asked] == ["read", "read"]
    assert disk.asked[1][1:] == held
    assert {word.rpartition(":")[2] for word in disk.asked[0][1:]} == {"0.3"}
    assert [proof.off for proof in proofs] == [0, 0]
