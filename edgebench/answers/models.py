"""How two sweeps compare; and what a device's model tells: its constants, fits and predictions."""

from __future__ import annotations

import itertools
from collections import Counter
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
from edgebench.results.workload_key import brief_names
from edgebench.text import AS_IS, MIB, THROUGHPUT, format_duration, format_size, throughput_words

if TYPE_CHECKING:
    from edgebench.analysis.comparison import PointComparison, SweepComparison
    from edgebench.slowdown.answer import Answer, PhaseTime
    from edgebench.slowdown.calibration import Calibration
    from edgebench.slowdown.curves import Fit
    from edgebench.slowdown.prediction import Prediction, Together

#: What is compared, where a reader knows it by another word.
_WHAT = {"total": "", "demand": "needs", "viable": "finished"}
#: The smallest changes that users usually want to detect.
_WANTED = (0.1, 0.05)
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


def comparison_headline(compared: SweepComparison) -> str:
    """``1.02x over 40 times (0.99 to 1.04), same   38 same, 2 slower``."""
    counts = Counter(row.verdict for row in compared.rows)
    listed = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    return headline(_overall(compared), listed)


def _overall(compared: SweepComparison) -> str:
    if (overall := compared.overall) is None:
        return ""
    between = f"{overall.ratio_low:.2f} to {overall.ratio_high:.2f}"
    times = f"{factor(overall.ratio)} over {overall.times} times ({between})"
    return f"{times}, {overall.verdict}"


def regression_words(compared: SweepComparison) -> str:
    """Why the new sweep is refused: all times together, or how many comparisons got worse."""
    if compared.overall is not None and not compared.regressions:
        return _overall(compared)
    return f"{len(compared.regressions)} of {len(compared.rows)} comparisons are regressions"


def comparison_table(rows: Sequence[PointComparison], among: Sequence[PointComparison]) -> Table:
    """Make the table of some comparisons among all."""
    names = brief_names(row.workload for row in among)
    cells, swaps = [], {row.limits.swap_kind for row in among}
    for row in rows:
        what = f" {_WHAT.get(row.quantity, row.quantity)}".rstrip()
        swap = f" {row.limits.swap_kind}" if len(swaps) > 1 else ""
        limit = "none" if row.limits.label == "max" else row.limits.label
        old, new, ratio = _values(row)
        chance = "" if row.p is None else f"{row.p:.2g}"
        point = f"{names[row.workload]} {limit}{swap}{what}"
        cells.append([point, old, new, ratio, row.verdict, chance])
    return filled_table(("point", "old", "new", "ratio", "verdict", "p"), cells, "point", "verdict")


def _values(row: PointComparison) -> tuple[str, str, str]:
    if row.quantity == "viable":
        old, new = (
            f"{part * count:.0f}/{count}"
            for part, count in ((row.a, row.repeats_a), (row.b, row.repeats_b))
        )
        return old, new, ""
    if row.quantity == THROUGHPUT:
        old, new = (throughput_words(number, row.unit) for number in (row.a, row.b))
    else:
        form = size if row.quantity == "demand" else seconds
        old, new = form(row.a), form(row.b)
    return old, new, factor(row.ratio)


def least_changes(compared: SweepComparison) -> list[str]:
    """Return the smallest change that these repeats show, and how many show a usual one."""
    lines = []
    overall = compared.overall.least_ratio if compared.overall else None
    known = ("of all times", overall), ("of half of the times", compared.least_times_ratio)
    for what, least in known:
        if least is not None:
            wanted = {p: compared.repeats_for(1 + p, least) for p in _WANTED if least > 1 + p}
            more = [f", {share(part)} with {repeats} repeats" for part, repeats in wanted.items()]
            lines.append(f"least change shown {what}: {share(least - 1)}{''.join(more)}")
    return lines


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
    from edgebench.slowdown.curves import shown_phase

    stage = _ROUND.get(shown_phase("total", prediction.subject.settings), "time")
    rows = []
    for at in sorted(prediction.at, key=lambda at: -at.limit_bytes):
        start, total = at.phase(START), at.phase("total") if at.viable else None
        trials = f"{at.finished}/{at.ended}" if at.ended else ""
        time = _time(total) if total else "?" if at.viable else ""
        begins = _time(start, ends=False) if start and at.viable else ""
        slower = ""
        if total and total.slowdown is None:
            slower = f"{total.slowdown_low or 0:.2g} or {factor(total.slowdown_high or 0)}"
        elif total:
            slower = f"{'>=' * total.at_least}{factor(total.slowdown)}"
        rows.append([size(at.limit_bytes), trials, begins, time, slower, _how(at)])
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


def _how(at: Answer) -> str:
    """Return how it is known, where it is killed, and what is not known."""
    from edgebench.slowdown.seconds import Source

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
