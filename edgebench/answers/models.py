"""What the model of a device tells: fitted curves, predictions at limits, and its constants."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from edgebench.answers.table import (
    Table,
    factor,
    filled_table,
    headline,
    seconds,
    share,
    size,
    size_cells,
)
from edgebench.results.times import SLIGHT, START
from edgebench.slowdown.curves import shown_phase
from edgebench.slowdown.seconds import Source
from edgebench.text import AS_IS, MIB, format_duration, format_size

if TYPE_CHECKING:
    from edgebench.slowdown.answer import Answer, PhaseTime
    from edgebench.slowdown.calibration import Calibration
    from edgebench.slowdown.curves import Fit
    from edgebench.slowdown.prediction import Prediction, Together

#: A cliff: between two limits the slowdown grows by this factor or more.
_CLIFF = 1.5
#: Settings that tell workloads of one network apart.
_APART = ("schedule", "loader", "optimizer", "batch", "image", "threads", "sweep")
_ROUND = {"steady": "round", "start": "start", "total": "time"}
#: Constant of a calibration → what it means; without --verbose the first four are shown.
MEANINGS = {
    "swap_in_bytes_per_s": "swap read",
    "swap_out_bytes_per_s": "swap write",
    "file_read_bytes_per_s": "file read",
    "fault_s": "fault",
    "file_fault_bytes_per_s": "mapped file read",
    "minor_fault_s": "first touch of a page",
    "pages_per_fault": "read from swap by one fault",
    "file_pages_per_fault": "read from a mapped file by one fault",
    "base_bytes": "the runtime alone, unlimited",
    "hot_base_bytes": "of it kept at a tight limit",
    "swap_request_bytes": "read from swap by one request",
    "file_request_bytes": "read from a mapped file by one request",
    "seen_share": "added to a slowed network ÷ what the above say",
}
_BRIEF = 4


def calibration_table(calibration: Calibration, verbose: bool) -> Table:
    """Make a row for each constant; what this device doesn't have is left out."""
    titles = ("what", "median", "lowest", "highest", "constant")[: 5 if verbose else 2]
    rows = []
    for name, meaning in list(MEANINGS.items())[: None if verbose else _BRIEF]:
        if constant := getattr(calibration, name):
            values = (constant.value, constant.low, constant.high)
            ends = [_constant_cell(value, constant.unit) for value in values]
            rows.append([meaning, *ends, name][: len(titles)])
    return Table(titles, rows, ("what", "constant"))


def _constant_cell(value: float, unit: str) -> str:
    if unit in ("bytes", "bytes/s"):
        return format_size(value) + unit.removeprefix("bytes")
    if unit == "s":
        return format_duration(value) if value >= 1e-5 else f"{value * 1e6:.2f} µs"
    return f"{value:.2f}" if unit == "share" else f"{value:.1f} {unit}"


def fits_table(fits: Iterable[Fit]) -> Table:
    """Make a row for each curve; errors are at limits that were left out of the fit."""
    rows = []
    for fit in fits:
        curve = fit.curve
        points = sorted(zip(map(float, curve.limits), map(float, curve.medians), strict=True))
        fine = itertools.takewhile(lambda point: point[1] <= SLIGHT, reversed(points))
        least = min((limit for limit, _ in fine), default=None)
        steps = (
            (tight[1] / wide[1], tight[0], wide[0]) for tight, wide in itertools.pairwise(points)
        )
        rise, low, high = max(steps, default=(1.0, 0.0, 0.0))
        cells = [curve.label, str(len(points)), curve.unlimited_words]
        cells.append("none" if least is None else size(least))
        cells.append(f"{size(low)} to {size(high)}" if rise >= _CLIFF else "")
        rows.append([*cells, "?" if fit.error is None else share(fit.error)])
    titles = ("curve", "points", "unlimited", "1.1x down to", "cliff", "error")
    return filled_table(titles, rows, "curve", "cliff")


def prediction_headline(
    prediction: Prediction, others: Sequence[Prediction] = (), storage: str = ""
) -> str:
    """Return its name, the settings that tell it from others, its swap, what it needs, its knee."""
    subject, settings = prediction.subject, prediction.subject.settings
    alike = [other.subject for other in others if other.subject.network == subject.network]
    differ = [key for key in _APART if len({str(s.settings.get(key)) for s in alike}) > 1]
    words = []
    # The name of a sweep tells nothing where another setting does.
    for key in dict.fromkeys(
        ["schedule", "loader", *([k for k in differ if k != "sweep"] or differ)]
    ):
        value = settings.get(key)
        # NaN is not itself.
        if value is not None and value == value:
            text = f"{value:g}" if isinstance(value, float) else str(value)
            words.append(text if key in ("schedule", "loader", "sweep") else f"{key} {text}")
    words.append(_swap(settings.get("swap_kind"), settings.get("swap_bytes")))
    held = storage or str(settings.get("storage", AS_IS))
    parts = [", ".join([*words, *([] if held == AS_IS else [held])])]
    if prediction.needs_bytes:
        about = "" if prediction.needs_measured else "about "
        parts.append(f"needs {about}{size(prediction.needs_bytes)}")
    if prediction.knee_bytes and prediction.knee_between:
        low, high = (f"{side / MIB:.0f}" for side in prediction.knee_between)
        parts.append(f"knee {size(prediction.knee_bytes)} ({low} to {high})")
    return headline(subject.network, *parts)


def _swap(kind: object, swap_bytes: object) -> str:
    if kind in (None, "none"):
        return "no swap"
    if not isinstance(swap_bytes, int | float) or swap_bytes != swap_bytes:
        return f"swap {kind}"
    return f"{format_size(float(swap_bytes))} {'zram' if kind == 'zram' else 'swap'}"


def prediction_table(prediction: Prediction) -> Table:
    """Make a row for each limit, the widest first, with how it is known."""
    stage = _ROUND.get(shown_phase("total", prediction.subject.settings), "time")
    rows = []
    for at in sorted(prediction.at, key=lambda at: -at.limit_bytes):
        start, total = at.phase(START), at.phase("total") if at.viable else None
        trials = f"{at.finished}/{at.ended}" if at.ended else ""
        time = _time(total) if total else "?" if at.viable else ""
        begins = _time(start, ends=False) if start and at.viable else ""
        rows.append([size(at.limit_bytes), trials, begins, time, _slower(total), _how(at)])
    titles = ("limit", "ok", START, stage, "slower", "how it is known")
    return filled_table(titles, rows, "how it is known")


def _time(time: PhaseTime, *, ends: bool = True) -> str:
    if time.seconds is None:
        return f"{seconds(time.low_s or 0)} or {seconds(time.high_s or 0)}"
    words = seconds(time.seconds)
    if time.at_least:
        return f"{words} or more"
    if not ends or time.low_s is None or time.high_s is None:
        return words
    low, high = seconds(time.low_s), seconds(time.high_s)
    return words if low == high == words else f"{words} ({low.split()[0]} to {high.split()[0]})"


def _slower(time: PhaseTime | None) -> str:
    if time is None:
        return ""
    if time.slowdown is None:
        return f"{time.slowdown_low or 0:.2g} or {factor(time.slowdown_high or 0)}"
    return f"{'>=' * time.at_least}{factor(time.slowdown)}"


def _how(at: Answer) -> str:
    """Return how it is known, where it is killed, and what is not known."""
    total, words = at.phase("total"), at.source.value
    if at.outcome is None:
        return f"{words}: too near to what it needs to tell whether it finishes"
    if not at.viable:
        return "killed" if at.source is Source.MEASURED else f"killed ({words})"
    if total and total.seconds is None:
        sides = [f"{side / MIB:.0f}" for side in (at.tighter_bytes, at.wider_bytes) if side]
        return f"at the knee: between {' and '.join(sides) if len(sides) > 1 else 'limits'}"
    if total and total.at_least and at.wider_bytes:
        return f"below the tightest, {size(at.wider_bytes)}"
    return words


def together_tables(found: Together, limits: Sequence[float]) -> tuple[Table, Table]:
    """Make a row for each network that runs at once, and a row for each limit."""
    needs = size_cells([*(part.needs_bytes for part in found.parts), found.needs_bytes])
    steady = size_cells([*(part.steady_bytes for part in found.parts), found.steady_bytes])
    names = [*((part.network, part.settings) for part in found.parts), ("together", "")]
    networks = [[*name, *sizes] for name, *sizes in zip(names, needs, steady, strict=True)]
    rows = []
    for limit, cell in zip(limits, size_cells(limits), strict=True):
        finishes, excess = found.finishes(limit), found.excess_bytes(limit)
        ends = "?" if finishes is None else "yes" if finishes else "killed"
        reads = f"at least {size(excess)}" if excess else "no"
        shrink = found.largest.network if excess or finishes is False else ""
        rows.append([cell, ends, reads if finishes is not False else "", shrink])
    return (
        Table(("network", "workload", "needs", "steady"), networks, ("network", "workload")),
        filled_table(("limit", "finishes", "reads again", "shrink"), rows, "shrink"),
    )
