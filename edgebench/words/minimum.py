"""Sentences of ``minimum``: what a workload needs, where it gets slow, where it is killed."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from edgebench.throughput import per_second_words
from edgebench.units import brief_size, format_duration, format_size, format_times, times_as_long
from edgebench.words.need import elsewhere_words, need_words

if TYPE_CHECKING:
    from edgebench.boards.board import Board
    from edgebench.run.minimum_answer import Minimum
    from edgebench.run.search import TriedLimit

#: A limit that differs by no more than this share is the demand, as well as it is known.
_ABOUT = 0.97


def minimum_sentence(found: Minimum) -> str:
    """``needs 412 MiB; takes 2 times as long below 300 MiB; killed below 180 MiB (…)``."""
    parts = [_demand_words(found)]
    if found.size_bytes is not None:
        parts.insert(0, _fits_words(found))
    elif not found.tried:
        parts.append("no limit was tried")
    else:
        parts += [part for part in (*_slow_parts(found), _end_words(found)) if part]
    trials = "1 trial" if found.trials == 1 else f"{found.trials} trials"
    return f"{'; '.join(parts)} ({trials}, {_seconds(found.total_s)})"


def _demand_words(found: Minimum) -> str:
    """The demand; where it varies, why and what to reserve."""
    if not found.has_varying_demand:
        return f"needs {need_words(found.need, brief_size)}{elsewhere_words(found.need)}"
    reserve = f"reserve {brief_size(found.needed_bytes)}"
    if found.is_first_different:
        first, later = (
            brief_size(found.demands_bytes[0]),
            brief_size(max(found.demands_bytes[1:])),
        )
        return (
            f"needed {first} in its first run and {later} in later ones, so a run changes "
            f"what the next one needs: {reserve}"
        )
    least, most = brief_size(found.demand_least_bytes), brief_size(found.demand_bytes)
    return f"needs {least} to {most}, depending on the run: {reserve}"


def _fits_words(found: Minimum) -> str:
    size = brief_size(found.size_bytes or 0)
    if not found.tried:
        return f"{size} was not tried"
    (one,) = found.tried
    if found.fits:
        slow = one.slowdown if found.fast else None
        took = f", taking {times_as_long(slow)}" if slow else ""
        return f"fits in {size} (finished {one.trials} of {one.trials} times{took})"
    if one.outcome == "ok" and one.slowdown:
        once = " in one trial" if one.trials == 1 else ""
        return f"does not fit in {size}: {_pace_words(found, one.slowdown)} there{once}"
    return f"does not fit in {size}: {_end(found, one)}"


def _pace_words(found: Minimum, slowdown: float) -> str:
    if found.throughput is not None and found.unlimited_per_s:
        return f"only {found.unlimited_per_s / slowdown:.3g} {per_second_words(found.unit)}"
    return f"takes {times_as_long(slowdown)}"


def _slow_parts(found: Minimum) -> tuple[str | None, str | None]:
    """How much later it starts, and where it gets too slow: of steady rounds, if it has any."""
    words, later_s = _slow_words(found), found.later_start_s
    if later_s is None or found.fast is None or found.fast.good is None or words is None:
        return None, words
    where = brief_size(found.fast.good.limit_bytes)
    once = " in one trial" if found.later_start_trials == 1 else ""
    start = f"starts {format_duration(later_s)} later at {where}{once}" if later_s > 0 else None
    return start, f"once running, it {words}"


def _slow_words(found: Minimum) -> str | None:
    """Where it gets too slow."""
    if found.throughput is not None and found.slowdown is not None and found.slowdown <= 1:
        return (
            f"{found.unlimited_per_s:.3g} {per_second_words(found.unit)} without a limit, "
            f"fewer than {found.throughput:g}"
        )
    if found.fast is None or found.slowdown is None:
        return None
    words = f"takes {times_as_long(found.slowdown)}"
    fine = f"takes at most {times_as_long(found.slowdown)}"
    if found.throughput is not None:
        words = f"fewer than {found.throughput:g} {per_second_words(found.unit)}"
        fine = f"at least {found.throughput:g} {per_second_words(found.unit)}"
    good, bad = found.fast.good, found.fast.bad
    if good is None:
        return f"{words} up to {brief_size(bad.limit_bytes)}" if bad else None
    if bad is None:
        return f"{fine} down to {brief_size(good.limit_bytes)}"
    if bad.outcome != "ok" and found.viable.bad == bad:
        # The next words say what happens below.
        stopped = bad.outcome == "timeout"
        return None if stopped else f"{fine} down to {brief_size(good.limit_bytes)}"
    if found.fast.settled:
        return f"{words} below {brief_size(good.limit_bytes)}"
    # Between the two it is not known.
    above = f"at {brief_size(good.limit_bytes)}"
    if bad.slowdown and good.slowdown and found.throughput is None:
        words, fine = f"takes {times_as_long(bad.slowdown)}", format_times(good.slowdown)
    return f"{words} at {brief_size(bad.limit_bytes)}, {fine} {above}"


def _end_words(found: Minimum) -> str | None:
    """Where it is killed, or stopped since it takes too long."""
    good, bad = found.viable.good, found.viable.bad
    if bad is None:
        least = brief_size(good.limit_bytes) if good else None
        return f"finished at {least}, the least limit tried" if least else None
    how = _end(found, bad)
    if good is None:
        return f"{how} at {brief_size(bad.limit_bytes)}"
    least = brief_size(good.limit_bytes)
    if found.has_varying_demand or not found.viable.settled:
        # Between the two it is not known.
        return f"{how} at {brief_size(bad.limit_bytes)}, finished at {least}"
    if _ABOUT <= good.limit_bytes / found.needed_bytes <= 1 / _ABOUT:
        return f"{how} with less"
    return f"{how} below {least}"


def _end(found: Minimum, one: TriedLimit) -> str:
    """How the trials at a limit ended that is too small."""
    if one.outcome == "oom-killed":
        return "killed"
    if one.stopped_s is None:
        return one.outcome
    if found.unlimited_s is None or found.unlimited_per_s is not None:
        return f"not finished after {_seconds(one.stopped_s)}"
    return f"takes more than {times_as_long(one.stopped_s / found.unlimited_s)}"


def board_sentence(found: Minimum, board: Board) -> str:
    """Whether what the board has is enough, the libraries added that no limit here counts."""
    left, viable, libraries = board.left_bytes, found.viable.good, found.library_bytes
    good = viable if found.fast is None else found.fast.good
    leaves = f"{board.title} leaves {format_size(left)}"
    beside = libraries or 0
    sized = min([found.need.total_bytes, *([good.limit_bytes] if good else [])])
    with_them = f" with the {brief_size(libraries)} of libraries that it maps" if libraries else ""
    if left >= sized + beside:
        return f"{leaves}: enough{with_them}."
    if viable and left >= viable.limit_bytes + beside:
        return f"{leaves}: it finishes{with_them}, but slower than asked for."
    if left >= min([sized, *([viable.limit_bytes] if viable else [])]):
        return (
            f"{leaves}: too little for the {brief_size(beside)} of libraries that it maps beside, "
            "so these are read from its storage again and again."
        )
    return f"{leaves}: too little."


def swap_ram_sentence(found: Minimum) -> str:
    """What its swap took of the limits; empty where it lies on a disk."""
    if not found.swap_ram_bytes:
        return ""
    return f"The limits count what its swap takes of RAM: up to {brief_size(found.swap_ram_bytes)}."


def minimum_html(found: Minimum) -> str:
    """As a notebook shows it: the sentence, and each limit that was tried."""
    titles = ("limit", "trials", "outcome", "slowdown")
    rows = [
        (brief_size(one.limit_bytes), str(one.trials), one.outcome, _factor(one.slowdown))
        for one in sorted(found.tried, key=lambda one: -one.limit_bytes)
    ]
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    head = "".join(f"<th>{title}</th>" for title in titles)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    answer = f"<p><b>{escape(found.name)} {escape(minimum_sentence(found))}</b></p>"
    return answer + table if rows else answer


def _factor(slowdown: float | None) -> str:
    return "" if slowdown is None else f"{slowdown:.3g}×"


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if 10 <= seconds < 60 else format_duration(seconds)
