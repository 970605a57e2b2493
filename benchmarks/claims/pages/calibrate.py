"""docs/verbs/calibrate.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims.kept import calibration
from claims.texts import Claim, table

PAGE = "docs/verbs/calibrate.md"
SWAPS = ("file", "zram", "none")


def claims() -> Iterator[Claim]:
    """The constants of one machine."""
    yield table("## What is measured", _rows())


def _rows() -> Iterator[list[str]]:
    mb = 1e-6
    anon = ("file", "zram")
    yield ["from swap, MB/s", *(_told(swap, "swap_in_bytes_per_s", mb) for swap in anon), "-"]
    yield ["to swap, MB/s", *(_told(swap, "swap_out_bytes_per_s", mb) for swap in anon), "-"]
    fault = [_told(swap, "fault_s", 1e6, 1) for swap in SWAPS]
    yield ["a major fault, µs", *fault[:2], f"{fault[2]}, of files"]
    pages = [f"{_value(swap, 'pages_per_fault'):.1f}" for swap in anon]
    yield ["pages a fault", *pages, f"{_value('none', 'file_pages_per_fault'):.0f}, of files"]
    for words, name in (
        ("a mapped file, MB/s", "file_fault_bytes_per_s"),
        ("a file by `read(2)`, MB/s", "file_read_bytes_per_s"),
        ("the runtime, MB", "base_bytes"),
    ):
        yield [words, *(_told(swap, name, mb) for swap in SWAPS)]
    hot = [_told(swap, "hot_base_bytes", mb) for swap in anon]
    yield ["of it hot, MB", *hot, f"{_value('none', 'base_bytes') * mb:.0f}: nothing can leave"]


def _value(swap: str, name: str) -> float:
    return float(calibration(swap)[name]["value"])


def _told(swap: str, name: str, unit: float, digits: int = 0) -> str:
    """A constant with its lowest and highest block; alone if these don't differ."""
    of = calibration(swap)[name]
    middle, low, high = (f"{of[key] * unit:.{digits}f}" for key in ("value", "low", "high"))
    return middle if low == high else f"{middle} ({low} to {high})"
