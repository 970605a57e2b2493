"""The sampler in the test's own process, on a clock of its own, beside plain files."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgebench.cgroups import sampler
from edgebench.cgroups.interface import HotFiles
from edgebench.cgroups.sampler_process import SamplerProcess

MS = 1_000_000
BEGIN_NS = 10**12
#: ``(hot, show, lasts_ms, **intervals)`` → the sampler, stopped; ``show`` sets the files as they
#: are at a millisecond.
Sampled = Callable[..., SamplerProcess]


class Clock:
    """Stands for the modules ``time`` and ``select``: to wait is what lets the time pass."""

    def __init__(self, show: Callable[[int], object], lasts_ms: int) -> None:
        self._show, self._end_ns = show, BEGIN_NS + lasts_ms * MS
        self._now_ns = BEGIN_NS
        show(0)

    def monotonic_ns(self) -> int:
        return self._now_ns

    def sleep(self, seconds: float) -> None:
        """Wait so long."""
        self._now_ns += round(seconds * 1e9)
        self._show((self._now_ns - BEGIN_NS) // MS)

    def select(self, stdin: object, _: object, __: object, seconds: float) -> tuple[object, ...]:
        """Wait so long for the end of the sampler's input."""
        self.sleep(seconds)
        return (stdin if self._now_ns >= self._end_ns else (), (), ())


class InProcess:
    pid = 1

    def __init__(self, words: list[str], **_: Any) -> None:
        self.stdout = io.BytesIO(b"ready\n")
        sampler.main(words[4:])

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        return b"0.25 4096\n", b""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def sampled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Sampled:
    """Sample these files; without ``show`` they stay as they are."""

    def run(
        hot: HotFiles,
        show: Callable[[int], object] = lambda ms: None,
        lasts_ms: int = 150,
        **intervals: float | None,
    ) -> SamplerProcess:
        clock = Clock(show, lasts_ms)
        monkeypatch.setattr(sampler, "time", clock)
        monkeypatch.setattr(sampler, "select", clock)
        monkeypatch.setattr("edgebench.cgroups.sampler_process.subprocess.Popen", InProcess)
        made = SamplerProcess(hot, folder, **intervals)
        made.start()
        return made

    return run
