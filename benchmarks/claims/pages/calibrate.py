"""docs/verbs/calibrate.md."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from claims.kept import calibration, figures
from claims.texts import Claim, says, table

PAGE = "docs/verbs/calibrate.md"
SWAPS = ("file", "zram", "none")
PAGE_BYTES = 4096


def claims() -> Iterator[Claim]:
    """The constants of one machine, and what a page costs by them."""
    walls = [one["wall_s"] for one in figures("calibration_time")["calibrations"]]
    yield says(
        "machine {} calibrations took {} to {} s each",
        *(len(walls), *(f"{end(walls):.1f}" for end in (min, max))),
    )
    yield table("## Results on one machine", _rows())
    yield says(
        "from zram takes about {} µs, from the swap file about {}. A whole cyclic scan takes {} µs per page in"
        " zram",
        *(f"{_page_s(swap) * 1e6:.0f}" for swap in ("zram", "file")),
        f"{_scan_s('zram') * 1e6:.0f}",
    )


def _rows() -> Iterator[list[str]]:
    mb = 1e-6
    anon = ("file", "zram")
    yield ["from swap, MB/s", *(_told(swap, "swap_in_bytes_per_s", mb) for swap in anon), "-"]
    yield ["to swap, MB/s", *(_told(swap, "swap_out_bytes_per_s", mb) for swap in anon), "-"]
    fault = [_told(swap, "fault_s", 1e6, 1) for swap in SWAPS]
    yield ["a major fault, µs", *fault[:2], f"{fault[2]}, of files"]
    pages = [f"{_value(swap, 'pages_per_fault'):.1f}" for swap in anon]
    yield ["pages a fault", *pages, f"{_value('none', 'file_pages_per_fault'):.0f}, of files"]
    share = [_told(swap, "lru_share", 1, 2) for swap in SWAPS]
    yield ["θ", *share[:2], f"{share[2]}, of files"]
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


def _page_s(swap: str) -> float:
    """What a page costs that comes back."""
    fault = _value(swap, "fault_s") / _value(swap, "pages_per_fault")
    return fault + PAGE_BYTES / _value(swap, "swap_in_bytes_per_s")


def _scan_s(swap: str) -> float:
    """The median seconds a page of scans that read anonymous memory which mostly wasn't there."""
    scans = [
        scan
        for scan in calibration(swap)["scans"]
        if (scan["of"], scan["what"]) == ("anon", "read")
        and scan["in_bytes"] > 0.9 * scan["touched_bytes"]
    ]
    return median(scan["seconds"] / (scan["touched_bytes"] / PAGE_BYTES) for scan in scans)
