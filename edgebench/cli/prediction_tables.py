"""The sentences and tables of ``edgebench predict``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from edgebench.cli.output import print_answer, print_lines, print_table, print_title
from edgebench.results.rounds import START, STEADY
from edgebench.results.workload_key import brief_names
from edgebench.units import format_duration, format_size, times_as_long

if TYPE_CHECKING:
    from edgebench.slowdown.other_device import OtherDevice
    from edgebench.slowdown.prediction import LimitPrediction, PhaseTime, Prediction

#: Settings that name a workload beside its network: of inference, and of training.
_NAMING = ("schedule", "loader", "optimizer")
#: How many of the layers that a limit slows down are named.
_LAYERS = 2


def print_predictions(
    found: Sequence[Prediction], verbose: bool, other: OtherDevice | None = None
) -> None:
    """A sentence for each workload, then its table; with ``verbose`` its phases and layers too.

    For another device also where its constants are from.
    """
    names = brief_names(map(_title, found))
    own = _own_words(found)
    print_answer(
        _answer(one, names[_title(one)] + (words and f" ({words})"), other)
        for one, words in zip(found, own, strict=True)
    )
    print_lines(other.says if other else ())
    for one, words in zip(found, own, strict=True):
        _print_prediction(one, " · ".join(filter(None, (_title(one), words))), verbose)


def _answer(one: Prediction, name: str, other: OtherDevice | None) -> str:
    """Fits, slow or killed, at the given limits; with its interval and its source."""
    killed = [at for at in one.at if not at.viable]
    finished = sorted((at for at in one.at if at.viable), key=lambda at: at.limit_bytes)
    words = []
    if finished:
        words.append(_finishing(one, finished, name))
    if killed:
        where = ", ".join(format_size(at.limit_bytes) for at in killed)
        words.append(f"{'' if finished else name + ' is '}probably killed with {where}")
    source = f"constants of {other.name}, where nothing was run" if other else one.subject.origin
    return f"{'; '.join(words)} (model {one.model}, from {source})."


def _finishing(one: Prediction, finished: Sequence[LimitPrediction], name: str) -> str:
    """The time at the tightest limit, and from where up it is not slowed."""
    tightest = finished[0]
    total = next(time for time in tightest.phases if time.phase == "total")
    each = " a steady round" if _total_name(one) == STEADY else ""
    seconds = format_duration(total.seconds)
    takes = f"{name} with {format_size(tightest.limit_bytes)} takes {seconds}{each}"
    if total.low_s is not None and total.high_s is not None:
        ends = f"{format_duration(total.low_s)} to {format_duration(total.high_s)}"
        takes += f" (9 of 10 trials: {ends})"
    takes += f", {_as_long(total.slowdown)} as unlimited"
    start = next((time for time in tightest.phases if time.phase == START), None)
    if start:
        seconds = format_duration(start.seconds)
        takes += f"; its start takes {seconds}, {_as_long(start.slowdown)}"
    if one.unslowed_bytes and len(one.at) > 1:
        takes += f"; not slowed from {format_size(one.unslowed_bytes)} up"
    return takes


def _as_long(factor: float) -> str:
    """``as long``, where three digits show no difference."""
    return "as long" if f"{factor:.3g}" == "1" else times_as_long(factor)


def _total_name(one: Prediction) -> str:
    """What ``total`` is of the workload, as it is shown."""
    return next(curve.answer for curve in one.subject.curves if curve.phase == "total")


def _print_prediction(one: Prediction, title: str, verbose: bool) -> None:
    print_title(title)
    print_lines(_about(one))
    starts = any(time.phase == START for at in one.at for time in at.phases)
    titles: tuple[str, ...] = (
        *("limit", "demand", "finishes", *([START] if starts else [])),
        *(_total_name(one), "slower", "90 % interval", "+10 % saves"),
    )
    rows = [_total_row(at, starts) for at in one.at]
    if not verbose:
        titles, rows = titles[:-1], [row[:-1] for row in rows]
    print_table(titles, rows, words=("limit",))
    if verbose:
        _print_phases(one)
    print_lines(_notes(one))


def _print_phases(one: Prediction) -> None:
    """Each phase's time at each viable limit, and the layers that the limit slows down most."""
    from edgebench.slowdown.curves import WHOLES

    names = {phase.network for at in one.at for phase in at.phases}
    phases = [p for p in dict.fromkeys(p.phase for p in one.at[0].phases) if p not in WHOLES]
    viable = [at for at in one.at if at.viable]
    # A pipeline has every phase once for each network.
    if not viable or len(names) > 1 or not phases:
        return
    rows = []
    for at in viable:
        times = {time.phase: time for time in at.phases}
        cells = [_time(times[phase]) for phase in phases]
        layers = ", ".join(f"{cost.name} {cost.share:.0%}" for cost in at.layers[:_LAYERS])
        rows.append([_limit(at), *cells, layers])
    most = "added most to"
    titles = ["limit", *phases, most]
    if not any(row[-1] for row in rows):
        titles, rows = titles[:-1], [row[:-1] for row in rows]
    print_table(titles, rows, words=("limit", most))


def _own_words(found: Sequence[Prediction]) -> list[str]:
    """What tells workloads of one title apart: their sweeps, else other settings; else nothing."""
    words = []
    for one in found:
        own = one.subject.settings
        alike = [other.subject.settings for other in found if _title(other) == _title(one)]
        sweeps = [other.get("sweep") for other in alike]
        by_sweep = len(alike) > 1 and len({*sweeps}) == len(sweeps)
        differ = [key for key in own if any(other.get(key) != own[key] for other in alike)]
        shown = ["sweep"] if by_sweep else differ
        words.append(" · ".join(f"{key} {own.get(key)}" for key in shown))
    return words


def _title(one: Prediction) -> str:
    settings = one.subject.settings
    words = [one.subject.network, *(str(settings[key]) for key in _NAMING if settings.get(key))]
    if settings.get("batch") not in (None, 1):
        words.append(f"batch {settings['batch']:g}")
    return " · ".join([*words, f"swap {settings.get('swap_kind')}"])


def _about(one: Prediction) -> Iterator[str]:
    unlimited = one.subject.has_unlimited
    measured = "measured without a limit alone" if unlimited else "not measured"
    measured = "measured before" if one.subject.was_run else measured
    words = f"{measured}; predicted by model {one.model}"
    yield words + (f"; demand {format_size(one.demand_bytes)}" if one.demand_bytes else "")
    if one.least_viable_bytes is not None:
        yield f"least viable limit: {_least(one)}"
    if one.unslowed_bytes:
        yield f"slowdown below 1.1 from {format_size(one.unslowed_bytes)} up"


def _least(one: Prediction) -> str:
    if not one.least_viable_bytes:
        lowest = [float(c.limits[0]) for c in one.subject.curves if len(c.limits)]
        tried = f"; trials finished down to {format_size(min(lowest))}" if lowest else ""
        return f"unknown: swap can hold all of it{tried}"
    sure = f" (9 of 10 finish at {format_size(one.sure_bytes)})" if one.sure_bytes else ""
    return format_size(one.least_viable_bytes) + sure


def _limit(at: LimitPrediction) -> str:
    return format_size(at.limit_bytes) + (" *" if at.extrapolated else "")


def _total_row(at: LimitPrediction, starts: bool) -> list[str]:
    """The cells of a limit; with ``starts``, its start's seconds too."""
    share = "-" if at.share is None else f"{at.share:.0%}"
    about = [_limit(at), share, "-" if at.probability is None else f"{at.probability:.0%}"]
    if not at.viable:
        return [*about, "not viable", *[""] * (3 + starts)]
    times = {time.phase: time for time in at.phases}
    total = times["total"]
    about += [format_duration(times[START].seconds)] if starts else []
    interval = "-"
    if total.low_s is not None and total.high_s is not None:
        interval = f"{format_duration(total.low_s)} to {format_duration(total.high_s)}"
    saved = format_duration(total.saved_s) if total.saved_s > 0.005 * total.seconds else "-"
    return [*about, format_duration(total.seconds), f"{total.slowdown:.2f}×", interval, saved]


def _time(time: PhaseTime) -> str:
    return f"{format_duration(time.seconds)} {time.slowdown:.2f}×"


def _notes(one: Prediction) -> Iterator[str]:
    if any(at.extrapolated for at in one.at):
        known = "no trial under a limit is known"
        if one.fitted:
            known = f"trials are known from {one.fitted[0]:.0%} to {one.fitted[1]:.0%} of demand"
        yield f"* extrapolated: {known}"
    if any(not at.viable for at in one.at) and one.least_viable_bytes:
        least = format_size(one.least_viable_bytes)
        yield f"not viable: below {least} it is more likely killed than not"
