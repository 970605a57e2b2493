"""The probe of a disk's speed: which requests it makes and what it counts."""

from __future__ import annotations

import json
import mmap
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from edgebench.boards import parse_storage
from edgebench.cgroups import probes, storage
from edgebench.cgroups.files import DiskLimit
from edgebench.cgroups.storage import ProbeResult, prove_storage

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
    asked: list[list[str]] = []
    speed = parse_storage(declared)

    def told(_: object, limit: object, file: Path, words: list[str]) -> list[ProbeResult]:
        asked.append(words)
        rates = ((speed.read_iops or 1e9) * int(word.split(":")[1]) for word in words[1:])
        allowed = [min(rate, speed.read_bps or 1e12) for rate in rates]
        return [ProbeResult(1e12 if limit is None else bps, 1e9) for bps in allowed]

    monkeypatch.setattr(storage, "probe", told)
    proofs = prove_storage(None, DiskLimit("8:0", "sda", speed), Path("f"))  # type: ignore[arg-type]
    assert [words[0] for words in asked] == ["read", "read"]
    assert asked[1][1:] == held
    assert {word.rpartition(":")[2] for word in asked[0][1:]} == {"0.3"}
    assert [proof.off for proof in proofs] == [0, 0]
