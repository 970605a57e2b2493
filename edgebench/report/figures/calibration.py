"""Figure of a calibration: misses and time of its scans, compared with replacement policies."""

from __future__ import annotations

import mmap
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgebench.report.figures import scales, style
from edgebench.slowdown.calibration.constants import lru, mixed, optimal, random_replacement
from edgebench.slowdown.calibration.scans import FITS, WIDE, Scan, blocks_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from edgebench.slowdown.calibration.device import Calibration
    from edgebench.slowdown.simulator.references import FloatArray

_LOOKS = {"anon": ("o", style.PHASE_COLOURS["load"]), "file": ("s", style.PHASE_COLOURS["first"])}
_NAMES = {"anon": "anonymous memory", "file": "mapped file"}
#: What is scanned, where the room for it is 1.
_SHARES, _ROOM = np.linspace(0.6, 2.4, 361), np.array(1.0)


def draw_calibration(calibration: Calibration, folder: Path) -> list[Path]:
    """Write the figure as PNG and SVG, ``calibration-<swap kind>``; in memory with ``-ram``.

    Raises:
        ResultsError: the folder can't be written.
    """
    about = f"device {calibration.device}", f"calibrated {calibration.created_utc}"
    with style.figure_style():
        figure = style.new_figure(
            "Repeated sequential scans of more memory than the limit allows",
            f"{calibration.device}, swap {calibration.swap_kind}: each mark is one pass",
            "  ·  ".join([*about, *style.version_words(calibration.environment)]),
            4.3,
        )
        missed, cost = figure.subplots(1, 2, sharex=True)
        _draw_missed(missed, calibration)
        _draw_cost(cost, calibration)
        style.legend_beside(cost, handles=_keys(missed, cost))
        stem = f"calibration-{calibration.swap_kind}{'-ram' if calibration.ram else ''}"
        return style.save_figure(figure, folder, stem)


def _keys(*panels: Axes) -> list[Artist]:
    """One key for each name, though both panels have it."""
    keys: dict[str, Artist] = {}
    for axes in panels:
        handles, names = axes.get_legend_handles_labels()
        keys |= dict(zip(names, handles, strict=True))
    return list(keys.values())


def _settled(calibration: Calibration, of: str) -> list[Scan]:
    return [scan for block in blocks_of(calibration.scans) for scan in block.cyclic(of)]


def _draw_missed(axes: Axes, calibration: Calibration) -> None:
    theta = calibration.lru_share.value
    lines = (
        ("LRU", lru(_SHARES, _ROOM), (0, ()), style.MUTED),
        ("random", random_replacement(_SHARES, _ROOM), (0, (1, 1.5)), style.MUTED),
        ("optimal", optimal(_SHARES, _ROOM), (0, (5, 3)), style.MUTED),
        (f"θ = {theta:.2f}", mixed(_SHARES, _ROOM, theta), (0, ()), style.INK),
    )
    # θ lies below the rest: where it is LRU, both show.
    for name, values, dashes, colour in lines:
        width, depth = (2.8, 1.9) if colour == style.INK else (1.1, 2.0)
        axes.plot(
            _SHARES, values, linestyle=dashes, color=colour, lw=width, zorder=depth, label=name
        )
    _scatter(axes, calibration, lambda scan: scan.miss_share)
    axes.set_ylabel("missed pages (share of touched pages)")
    axes.set_xlabel("scanned size ÷ memory available")
    axes.set_ylim(-0.03, None)


def _draw_cost(axes: Axes, calibration: Calibration) -> None:
    _scatter(axes, calibration, lambda scan: scan.seconds / scan.touched_bytes * mmap.PAGESIZE)
    if calibration.swap_in_bytes_per_s:
        axes.plot(
            _SHARES,
            _predicted(calibration),
            color=style.INK,
            lw=2.8,
            zorder=1.9,
            label="predicted from the constants",
        )
    axes.set_xlabel("scanned size ÷ memory available")
    scales.seconds_axis(axes, "time per page")


def _predicted(calibration: Calibration) -> FloatArray:
    """Seconds a page of swapped memory scanned in order, at each share."""
    assert calibration.swap_in_bytes_per_s
    fits = [scan for scan in _settled(calibration, "anon") if scan.planned_share == FITS]
    in_ram = statistics.median(scan.seconds / scan.touched_bytes for scan in fits) * mmap.PAGESIZE
    missed = mmap.PAGESIZE / calibration.swap_in_bytes_per_s.value
    missed += calibration.fault_s.value / calibration.pages_per_fault.value
    wide = [scan for scan in _settled(calibration, "anon") if scan.planned_share == WIDE]
    # Swap that gives up its copy of what comes back (zram) has to write it again.
    again = sum(scan.out_bytes for scan in wide) / max(1, sum(scan.in_bytes for scan in wide))
    if calibration.swap_out_bytes_per_s:
        missed += again * mmap.PAGESIZE / calibration.swap_out_bytes_per_s.value
    return in_ram + mixed(_SHARES, _ROOM, calibration.lru_share.value) * missed


def _scatter(axes: Axes, calibration: Calibration, of: Callable[[Scan], float]) -> None:
    for kind, (marker, colour) in _LOOKS.items():
        scans = _settled(calibration, kind)
        shares, values = [scan.share for scan in scans], [of(scan) for scan in scans]
        if not scans:
            continue
        axes.plot(
            shares, values, marker, color=colour, ms=4.5, mew=0, alpha=0.6, label=_NAMES[kind]
        )
