"""A calibration's scans: what they missed and what that cost, beside what theory says."""

from __future__ import annotations

import mmap
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgebench.figures.axes import seconds_axis
from edgebench.figures.style import (
    INK,
    MUTED,
    PHASE_COLOURS,
    applied,
    legend_beside,
    new_figure,
    save,
)
from edgebench.slowdown.calibration.scans import FITS, WIDE, Scan, blocks_of
from edgebench.slowdown.misses import at_random, lru, mixed, optimal

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from edgebench.slowdown.calibration.device import Calibration
    from edgebench.slowdown.references import FloatArray

_LOOKS = {"anon": ("o", PHASE_COLOURS["load"]), "file": ("s", PHASE_COLOURS["first"])}
_NAMES = {"anon": "anonymous memory", "file": "mapped file"}
#: What is scanned, where the room for it is 1.
_SHARES, _ROOM = np.linspace(0.6, 2.4, 361), np.array(1.0)


def draw(calibration: Calibration, folder: Path) -> list[Path]:
    """Write the figure as PNG and SVG, ``calibration-<swap kind>``.

    Raises:
        ResultsError: the folder can't be written.
    """
    with applied():
        figure = new_figure(
            "Scans in order, again and again, of more than fits",
            f"{calibration.device}, swap {calibration.swap_kind}: each mark is one pass",
            _footer(calibration),
            4.3,
        )
        missed, cost = figure.subplots(1, 2, sharex=True)
        _draw_missed(missed, calibration)
        _draw_cost(cost, calibration)
        legend_beside(cost, handles=_keys(missed, cost))
        return save(figure, folder, f"calibration-{calibration.swap_kind}")


def _keys(*panels: Axes) -> list[Artist]:
    """One key for each name, though both panels have it."""
    keys: dict[str, Artist] = {}
    for axes in panels:
        handles, names = axes.get_legend_handles_labels()
        keys |= dict(zip(names, handles, strict=True))
    return list(keys.values())


def _footer(calibration: Calibration) -> str:
    git = calibration.environment.get("git") or {}
    words = [f"device {calibration.device}", f"calibrated {calibration.created_utc}"]
    words.append(f"edgebench {calibration.environment.get('edgebench')}")
    if git.get("commit"):
        words.append(f"commit {git['commit'][:10]}" + (" + changes" if git.get("changed") else ""))
    return "  ·  ".join(words)


def _settled(calibration: Calibration, of: str) -> list[Scan]:
    return [scan for block in blocks_of(calibration.scans) for scan in block.cyclic(of)]


def _draw_missed(axes: Axes, calibration: Calibration) -> None:
    theta = calibration.lru_share.value
    lines = (
        ("LRU", lru(_SHARES, _ROOM), (0, ()), MUTED),
        ("random", at_random(_SHARES, _ROOM), (0, (1, 1.5)), MUTED),
        ("optimal", optimal(_SHARES, _ROOM), (0, (5, 3)), MUTED),
        (f"θ = {theta:.2f}", mixed(_SHARES, _ROOM, theta), (0, ()), INK),
    )
    # θ lies below the rest: where it is LRU, both show.
    for name, values, dashes, colour in lines:
        width, depth = (2.8, 1.9) if colour == INK else (1.1, 2.0)
        axes.plot(
            _SHARES, values, linestyle=dashes, color=colour, lw=width, zorder=depth, label=name
        )
    _scatter(axes, calibration, lambda scan: scan.miss_share)
    axes.set_ylabel("missed, as a share of what was touched")
    axes.set_xlabel("scanned / what the limit leaves to it")
    axes.set_ylim(-0.03, None)


def _draw_cost(axes: Axes, calibration: Calibration) -> None:
    _scatter(axes, calibration, lambda scan: scan.seconds / scan.touched_bytes * mmap.PAGESIZE)
    if calibration.swap_in_bytes_per_s:
        axes.plot(
            _SHARES,
            _predicted(calibration),
            color=INK,
            lw=2.8,
            zorder=1.9,
            label="by the constants",
        )
    axes.set_xlabel("scanned / what the limit leaves to it")
    seconds_axis(axes, "time a page")


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
