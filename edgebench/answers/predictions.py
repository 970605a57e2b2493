"""What ``predict`` prints: a headline a workload, and one row a limit with how it is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgebench.answers.table import factor, seconds, size
from edgebench.boards.storage import AS_IS
from edgebench.results.rounds import START
from edgebench.slowdown.curves import shown_phase
from edgebench.slowdown.seconds import Source
from edgebench.units import MIB, format_size

if TYPE_CHECKING:
    from edgebench.slowdown.answer import Answer, PhaseTime
    from edgebench.slowdown.prediction import Prediction

#: Settings that tell workloads of one network apart.
_APART = ("schedule", "loader", "optimizer", "batch", "image", "threads", "sweep")
_ROUND = {"steady": "round", "start": "start", "total": "time"}


def prediction_headline(
    one: Prediction, others: Sequence[Prediction] = (), storage: str = ""
) -> str:
    """Return its name, the settings that tell it from others, its swap, what it needs, its knee."""
    about = one.subject.settings
    alike = [other for other in others if other.subject.network == one.subject.network]
    differ = [k for k in _APART if len({str(o.subject.settings.get(k)) for o in alike}) > 1]
    kept = [k for k in differ if k != "sweep"] or differ
    shown = dict.fromkeys(["schedule", "loader", *kept])
    # NaN is not itself.
    known = {k: v for k in shown if (v := about.get(k)) is not None and v == v}
    words = [f"{v:g}" if isinstance(v, float) else str(v) for v in known.values()]
    names = [
        w if k in ("schedule", "loader", "sweep") else f"{k} {w}"
        for k, w in zip(known, words, strict=True)
    ]
    swap = _swap(about.get("swap_kind"), about.get("swap_bytes"))
    at = storage or str(about.get("storage", AS_IS))
    parts = [one.subject.network, ", ".join([*names, swap, *([] if at == AS_IS else [at])])]
    if one.needs_bytes:
        parts.append(f"needs {'' if one.needs_measured else 'about '}{size(one.needs_bytes)}")
    if one.knee_bytes and one.knee_between:
        low, high = (f"{side / MIB:.0f}" for side in one.knee_between)
        parts.append(f"knee {size(one.knee_bytes)} ({low} to {high})")
    return "   ".join(parts)


def _swap(kind: object, swap_bytes: object) -> str:
    if kind in (None, "none"):
        return "no swap"
    name = "zram" if kind == "zram" else "swap"
    if not isinstance(swap_bytes, int | float) or swap_bytes != swap_bytes:
        return f"swap {kind}"
    return f"{format_size(float(swap_bytes))} {name}"


def prediction_rows(one: Prediction) -> tuple[tuple[str, ...], list[list[str]]]:
    """Return titles and cells: the widest limit first, columns without a cell left out."""
    stage = shown_phase("total", one.subject.settings)
    titles = ("limit", "ok", START, _ROUND.get(stage, "time"), "slower", "how it is known")
    ordered = sorted(one.at, key=lambda at: -at.limit_bytes)
    cells = [_row(at) for at in ordered]
    kept = [n for n in range(len(titles)) if n in (0, 5) or any(row[n] for row in cells)]
    return tuple(titles[n] for n in kept), [[row[n] for n in kept] for row in cells]


def _row(at: Answer) -> list[str]:
    start, total = at.phase(START), at.phase("total") if at.viable else None
    trials = f"{at.finished}/{at.ended}" if at.ended else ""
    time = _time(total) if total else "?" if at.viable else ""
    begins = _time(start, ends=False) if start and at.viable else ""
    return [size(at.limit_bytes), trials, begins, time, _slower(total), _how(at)]


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
    words = at.source.value
    beside = [f"{side / MIB:.0f}" for side in (at.tighter_bytes, at.wider_bytes) if side]
    total = at.phase("total")
    if at.outcome is None:
        words += ": too near to what it needs to tell whether it finishes"
    elif not at.viable:
        words = f"killed ({words})" if at.source is not Source.MEASURED else "killed"
    elif total and total.seconds is None:
        words = f"at the knee: between {' and '.join(beside) if len(beside) > 1 else 'limits'}"
    elif total and total.at_least and at.wider_bytes:
        words = f"below the tightest, {size(at.wider_bytes)}"
    return words
