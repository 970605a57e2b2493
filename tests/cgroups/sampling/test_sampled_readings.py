"""One row of fast samples, from injected readings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgebench.cgroups import sampler

Row = Callable[..., tuple[int, ...]]


@pytest.fixture
def row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Row:
    """Reads one row; each file answers with its readings in turn."""

    def read(*, memsw: bool = False, **readings: list[str]) -> tuple[int, ...]:
        spec = {"usage": "", "swap": "", "cpu": "", "swap_is_memsw": str(memsw)}
        spec["cpu_unit_ns"] = "1" if "cpu_ns" in readings else "1000"
        answers = {}
        for name, texts in readings.items():
            file = tmp_path / name
            file.touch()
            spec["cpu" if name.startswith("cpu") else name] = str(file)
            answers[file.name] = iter(texts)

        def pread(descriptor: int, size: int, offset: int) -> bytes:
            name = Path(f"/proc/self/fd/{descriptor}").readlink().name
            return next(answers[name]).encode()[:size]

        monkeypatch.setattr(sampler.os, "pread", pread)
        return sampler._reader(spec)(17)

    return read


def test_swap_alone_is_as_the_kernel_tells_it(row: Row) -> None:
    """Version 2 has a file of its own for it."""
    assert row(usage=["100\n"], swap=["30\n"], cpu=["usage_usec 4\nuser_usec 3\n"]) == (
        *(17, 100, 30),
        4000,
    )


def test_what_is_not_there_is_marked(row: Row) -> None:
    """A row of -1 for a file that the kernel lacks, not of 0."""
    assert row(usage=["100\n"]) == (17, 100, -1, -1)


def test_swap_of_version_1_is_the_difference(row: Row) -> None:
    """Memory + swap less memory; CPU time is a bare number of nanoseconds."""
    assert row(memsw=True, usage=["100", "100"], swap=["130"], cpu_ns=["9\n"]) == (17, 100, 30, 9)


def test_memory_allocated_between_two_reads_is_no_swap(row: Row) -> None:
    """Usage grew by 40 before memory + swap was read: the second reading of usage shows it."""
    assert row(memsw=True, usage=["100", "140"], swap=["140"])[2] == 0


def test_memory_freed_between_two_reads_hides_no_swap(row: Row) -> None:
    """Usage fell after the first reading: the larger of both readings is taken off."""
    assert row(memsw=True, usage=["100", "60"], swap=["130"])[2] == 30
    assert row(memsw=True, usage=["100"], swap=["60"])[2] == 0
