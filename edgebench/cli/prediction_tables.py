"""The tables of ``edgebench predict``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgebench.cli.output import print_answer, print_lines, print_table, print_title
from edgebench.results.rounds import START
from edgebench.units import format_duration, format_size
from edgebench.words.prediction import (
    about_sentences,
    distinguishing_words,
    prediction_notes,
    prediction_sentences,
    prediction_title,
    total_name,
)

if TYPE_CHECKING:
    from edgebench.slowdown.answer import Answer, PhaseTime
    from edgebench.slowdown.other_device import OtherDevice
    from edgebench.slowdown.prediction import Prediction

#: How many of the layers that a limit slows down are named.
_LAYERS = 2


def print_predictions(
    found: Sequence[Prediction], verbose: bool, other: OtherDevice | None = None
) -> None:
    """A sentence for each workload, then its table; with ``verbose`` its phases and layers too.

    For another device also where its constants are from.
    """
    own = distinguishing_words(found)
    print_answer(prediction_sentences(found, own, other))
    print_lines(other.says if other else ())
    for one, words in zip(found, own, strict=True):
        _print_prediction(one, " · ".join(filter(None, (prediction_title(one), words))), verbose)


def _print_prediction(one: Prediction, title: str, verbose: bool) -> None:
    print_title(title)
    print_lines(about_sentences(one))
    starts = any(time.phase == START for at in one.at for time in at.phases)
    titles: tuple[str, ...] = (
        *("limit", "demand", "finishes", *([START] if starts else [])),
        *(total_name(one), "slower", "interval", "+10 % saves"),
    )
    rows = [_total_row(at, starts) for at in one.at]
    if not verbose:
        titles, rows = titles[:-1], [row[:-1] for row in rows]
    print_table(titles, rows, words=("limit",))
    if verbose:
        _print_phases(one)
    print_lines(prediction_notes(one))


def _print_phases(one: Prediction) -> None:
    """Each phase's time at each viable limit, and the layers that the limit slows down most."""
    from edgebench.slowdown.curves import WHOLES

    names = {phase.network for at in one.at for phase in at.phases}
    every = dict.fromkeys(p.phase for at in one.at for p in at.phases)
    phases = [p for p in every if p not in WHOLES]
    viable = [at for at in one.at if at.viable and at.phases]
    # A pipeline has every phase once for each network.
    if not viable or len(names) > 1 or not phases:
        return
    rows = []
    for at in viable:
        times = {time.phase: time for time in at.phases}
        cells = [_time(times[phase]) if phase in times else "-" for phase in phases]
        layers = ", ".join(f"{cost.name} {cost.share:.0%}" for cost in at.layers[:_LAYERS])
        rows.append([_limit(at), *cells, layers])
    most = "added most to"
    titles = ["limit", *phases, most]
    if not any(row[-1] for row in rows):
        titles, rows = titles[:-1], [row[:-1] for row in rows]
    print_table(titles, rows, words=("limit", most))


def _limit(at: Answer) -> str:
    return format_size(at.limit_bytes) + (" *" if at.extrapolated else "")


def _total_row(at: Answer, starts: bool) -> list[str]:
    """The cells of a limit; with ``starts``, its start's seconds too."""
    share = "-" if at.share is None else f"{at.share:.0%}"
    finishes = "-" if at.probability is None else f"{at.probability:.0%}"
    finishes = f"{at.finished} of {at.ended}" if at.kind == "measured" else finishes
    about = [_limit(at), share, finishes]
    total = at.phase("total")
    if not at.viable or total is None:
        return [*about, "killed" if not at.viable else "unknown", *[""] * (3 + starts)]
    start = at.phase(START)
    about += [format_duration(start.seconds) if start else "-"] if starts else []
    interval = "-"
    if total.low_s is not None and total.high_s is not None:
        interval = f"{format_duration(total.low_s)} to {format_duration(total.high_s)}"
    saved = total.saved_s or 0.0
    saves = format_duration(saved) if saved > 0.005 * total.seconds else "-"
    return [*about, format_duration(total.seconds), f"{total.slowdown:.2f}×", interval, saves]


def _time(time: PhaseTime) -> str:
    return f"{format_duration(time.seconds)} {time.slowdown:.2f}×"
