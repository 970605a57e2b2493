"""When the sampler reads, on a clock that moves only while it waits: no machine is too busy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgebench.cgroups import sampler
from edgebench.cgroups.interface import HotFiles
from edgebench.cgroups.sampler import SAME_BYTES
from edgebench.cgroups.sampler_process import FAST_COLUMNS, SamplerProcess

_MS = 1_000_000
_BEGIN_NS, _LASTS_MS = 10**12, 150
#: Bytes used at a millisecond since the begin.
Usage = Callable[[int], int]


class Machine:
    """Stands for the modules ``time`` and ``select``: to wait is what lets the time pass."""

    def __init__(self, file: Path, usage: Usage) -> None:
        self._file, self._usage = file, usage
        self._now_ns = _BEGIN_NS
        self._show()

    def _show(self) -> None:
        used = self._usage((self._now_ns - _BEGIN_NS) // _MS)
        self._file.write_text(f"{used:>20}\n")

    def monotonic_ns(self) -> int:
        """Now."""
        return self._now_ns

    def sleep(self, seconds: float) -> None:
        """Wait so long."""
        self._now_ns += round(seconds * 1e9)
        self._show()

    def select(self, stdin: object, _: object, __: object, seconds: float) -> tuple[object, ...]:
        """Wait so long for the end of the sampler's input."""
        self.sleep(seconds)
        return (stdin if self._now_ns >= _BEGIN_NS + _LASTS_MS * _MS else (), (), ())


@pytest.fixture
def gaps_ms(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[float]]:
    """Between the readings of a sampler that is started as always, while this much is used."""

    def sampled(usage: Usage, interval_s: float | None = None) -> list[float]:
        hot = HotFiles(folder / "usage", peak_resets=True)
        machine = Machine(hot.usage, usage)
        monkeypatch.setattr(sampler, "time", machine)
        monkeypatch.setattr(sampler, "select", machine)
        # The slow files are read once.
        words = SamplerProcess(hot, folder, interval_s, stat_interval_s=1e6)._words
        fast, stat = (folder / "fast.i64", folder / "stat.i64")
        with fast.open("wb") as fast_file, stat.open("wb") as stat_file:
            fds = (f"fast_fd={fast_file.fileno()}", f"stat_fd={stat_file.fileno()}")
            sampler.main([*words, *fds])
        rows = np.fromfile(fast, dtype=np.int64).reshape(-1, len(FAST_COLUMNS))
        return list(np.diff(rows[:, 0]) / _MS)

    return sampled


def test_it_waits_ever_longer_while_nothing_changes(gaps_ms: Callable[..., list[float]]) -> None:
    """Twice as long each time up to 5 ms; after a reading that differs, a millisecond again."""
    gaps = gaps_ms(lambda ms: 0 if ms < 100 else 2 * SAME_BYTES)
    assert gaps[:28] == [0, 2, 4, *[5] * 19, 1, 2, 4, 5, 5, 5]


def test_a_small_change_is_none(gaps_ms: Callable[..., list[float]]) -> None:
    """What the kernel charges ahead on its CPUs comes and goes all the time."""
    assert set(gaps_ms(lambda ms: ms % 2 * SAME_BYTES)[3:]) == {5}


def test_what_changes_all_the_time_is_read_each_millisecond(
    gaps_ms: Callable[..., list[float]],
) -> None:
    """From the first reading that differs on."""
    gaps = gaps_ms(lambda ms: 2 * SAME_BYTES * ms)
    assert gaps[:2] == [0, 2]
    assert set(gaps[2:]) == {1}


def test_an_interval_that_was_asked_for_stays(gaps_ms: Callable[..., list[float]]) -> None:
    """Whether anything changes or not."""
    assert set(gaps_ms(lambda ms: 0, interval_s=0.002)[1:]) == {2}
