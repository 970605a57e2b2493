"""Sentences on what puts numbers in doubt: one for each kind, with the points it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from edgebench.measures.machine.noise import WANTED_SHARE
from edgebench.records import Doubt
from edgebench.units import format_duration, format_size
from edgebench.words.outcomes import NOTHING_TO_RECLAIM

if TYPE_CHECKING:
    from edgebench.results.point_facts import PointFacts

#: More names than these are counted, not listed.
_MOST_NAMES, _MOST_LIMITS = 2, 3


class _Alike:
    """Doubts of one kind: each number from its lowest to its highest."""

    def __init__(self, doubts: Sequence[Doubt]) -> None:
        self._doubts = doubts

    def count(self, name: str, form: str = ".0f") -> str:
        """A number without a unit."""
        return self._range(name, lambda value: format(value, form))

    def share(self, name: str, form: str = ".0f") -> str:
        """``6%`` or ``6 to 12%``."""
        return f"{self._range(name, lambda value: format(100 * value, form))}%"

    def seconds(self, name: str, form: str) -> str:
        """``1.3 s`` or ``1.3 to 2.5 s``."""
        return f"{self.count(name, form)} s"

    def size(self, name: str) -> str:
        """``44.3 MiB``; ``none`` where a size is not there."""
        return self._range(name, lambda value: format_size(int(value)))

    def names(self) -> str:
        """What they are about, each once."""
        return ", ".join(dict.fromkeys(name for doubt in self._doubts for name in doubt.names))

    def pairs(self) -> str:
        """``a: b; c: d``: the names of each, once."""
        return "; ".join(dict.fromkeys(": ".join(one.names) for one in self._doubts))

    def _range(self, name: str, form: Callable[[float], str]) -> str:
        values = [one.numbers[name] for one in self._doubts if name in one.numbers]
        if not values:
            return "none"
        low, high = form(min(values)), form(max(values))
        if low == high:
            return low
        number, _, unit = low.partition(" ")
        return f"{number if high.endswith(f' {unit}') else low} to {high}"


def _spread(found: _Alike) -> str:
    share, repeats = found.share("share"), found.count("repeats")
    return f"the repeats spread by {share} of their mean ({repeats} repeats)"


def _far_repeat(word: str) -> Callable[[_Alike], str]:
    return lambda found: (
        f"the {word} repeat ({found.seconds('repeat_s', '.3g')}) is {found.share('away_share')} "
        f"off the mean ({found.seconds('mean_s', '.3g')}): look at that trial's `noise`"
    )


def _cliff(why: str) -> Callable[[_Alike], str]:
    return lambda found: (
        f"slowdown changes most between {found.size('low_bytes')} and {found.size('high_bytes')}, "
        f"known to {found.share('known_share', '.1f')} of the limit instead of "
        f"{found.share('wanted_share', '.1f')}: {why}"
    )


def _knee(why: str) -> Callable[[_Alike], str]:
    return lambda found: (
        f"the knee lies between {found.size('low_bytes')} and {found.size('high_bytes')}, "
        f"known to {found.share('known_share', '.1f')} of the limit instead of "
        f"{found.share('wanted_share', '.1f')}: {why}"
    )


def _left_out(what: str, why: str) -> Callable[[_Alike], str]:
    return lambda found: f"{found.count('count')} {what} from the worker were {why}"


#: Kind → its sentence.
SENTENCES: Mapping[str, Callable[[_Alike], str]] = {
    "stolen_cpu": lambda found: (
        f"the hypervisor took {found.share('share')} of the CPU time: "
        "use a machine of its own, or repeat more often"
    ),
    "foreign_cpu": lambda found: (
        f"other programs used {found.share('share')} of the CPU ({found.seconds('cpu_s', '.1f')}): "
        "end them (`top` names them), or repeat more often"
    ),
    "throttled_cpu": lambda found: (
        f"the CPU was throttled ({found.count('events')} events): "
        "cool the machine or fix its power supply, then run again"
    ),
    "slowed_down": lambda found: (
        f"the machine slowed itself down: {found.names()}: "
        "cool it or fix its power supply, then run again"
    ),
    "hot": lambda found: (
        f"the machine was {found.count('hot_c')} °C hot, and slows itself down from "
        f"{found.count('trip_c')} °C on: cool it, then run again"
    ),
    "clock_capped": lambda found: (
        f"the CPU's highest clock rate was changed between {found.count('low_ghz', '.3g')} and "
        f"{found.count('high_ghz', '.3g')} GHz: cool the machine or fix the rate, then run again"
    ),
    "limit_not_met": lambda found: (
        f"memory never reached the limit, so it can't be why the trials took "
        f"{found.count('factor', '.3g')} times as long as without: the machine's load differed"
    ),
    "spread": lambda found: (
        f"{_spread(found)}: about {found.count('more')} more would give a mean within "
        f"{WANTED_SHARE:.0%}"
    ),
    "spread_known": lambda found: (
        f"{_spread(found)}; so many give a mean within {WANTED_SHARE:.0%}"
    ),
    "spread_wide": lambda found: (
        f"{_spread(found)}: a mean within {WANTED_SHARE:.0%} would take about "
        f"{found.count('wanted')}; find what disturbs them first (`edgebench doctor`)"
    ),
    "short_repeat": _far_repeat("shortest"),
    "long_repeat": _far_repeat("longest"),
    "unsteady_rounds": lambda _: (
        "rounds don't repeat, so steady is the median of all after the first: run more rounds"
    ),
    "limit_changed": lambda found: (
        f"its limit of {found.names()} was changed while it ran: "
        f"from {found.size('from_bytes')} to {found.size('to_bytes')}"
    ),
    "ceiling": lambda found: (
        f"the cgroup that edgebench runs in is limited to {found.size('ceiling_bytes')}: "
        "no trial can use more"
    ),
    "no_events": _left_out("lines", "no events and were left out"),
    "events_dropped": _left_out("events", "dropped: there were too many to keep"),
    "notes_left_out": _left_out("notes", "left out: they are too large"),
    "other_swap_area": lambda found: (
        f"{found.size('swap_bytes')} of its swap were in another area than its own "
        f"({found.names()}): swapoff it, or wait until the edgebench that it belongs to has ended"
    ),
    "uncounted_swap_ram": lambda found: (
        f"its {found.names()} took {found.size('taken_bytes')} of RAM, which its limits do not "
        "count: a walk uses it as a fast disk"
    ),
    "walk_refused": lambda found: (
        f"the walk ended above {found.size('limit_bytes')}: {found.names()}"
    ),
    "walk_events": lambda _: (
        "the walk ended early: its rounds left more events than edgebench keeps"
    ),
    "knee_close": _knee("closer limits are no different"),
    "knee_left": _knee("the walk had its most limits"),
    "knee_disagree": _knee("visits of limits between them disagree"),
    # Of walks that looked for seconds, in kept results.
    "cliff_noisy": _cliff("rounds differ by as much"),
    "cliff_gradual": _cliff("closer limits are no different"),
    "cliff_left": _cliff("the walk had its most limits"),
    "huge_pages": lambda found: (
        f"{found.size('huge_bytes')} of the working set are in huge pages, which count as wholes: "
        "rounds may need less (huge_pages = false shows how much)"
    ),
    "killed_with_swap_free": lambda found: (
        f"killed while {found.size('free_bytes')} of swap were free: {NOTHING_TO_RECLAIM}"
    ),
    "drift": lambda found: (
        f"rounds without a limit changed by {found.share('drift_share', '+.0f')} during the walk"
    ),
    "no_reading": lambda found: f"no reading of {found.pairs()}",
}


def doubt_sentence(*alike: Doubt) -> str:
    """The sentence of doubts of one kind, without what they are about."""
    return SENTENCES[alike[0].kind](_Alike(alike))


def doubt_sentences(doubts: Iterable[Doubt]) -> list[str]:
    """One for each kind of doubt, with the workloads and limits that it is about.

    A kind that only results of an earlier version have is left out.
    """
    groups: dict[str, list[Doubt]] = {}
    for doubt in doubts:
        if doubt.kind in SENTENCES:
            groups.setdefault(doubt.kind, []).append(doubt)
    return [f"{_places(group)}{doubt_sentence(*group)}" for group in groups.values()]


def swap_free_doubts(point: PointFacts) -> list[Doubt]:
    """Kills at a point that a lack of swap can't explain, by the least and most that was free."""
    free = point.swap_free_bytes
    sizes = (free.low, free.high) if free else ()
    return [Doubt("killed_with_swap_free", {"free_bytes": size}) for size in sizes]


def reason_sentences(points: Iterable[tuple[str, str, Sequence[str]]]) -> list[str]:
    """Why trials did not finish, each reason once.

    Args:
        points: workload, limit and the reasons of each.
    """
    groups: dict[str, list[tuple[str, str]]] = {}
    for workload, limit, reasons in points:
        for reason in reasons:
            groups.setdefault(reason, []).append((workload, limit))
    return [f"{_at(places)}: {reason}" for reason, places in groups.items()]


def _places(group: Sequence[Doubt]) -> str:
    """``resnet18 at 70%, 60%: ``; of doubts without a limit their trials; else nothing."""
    points = [(one.workload or "", one.limit) for one in group if one.limit is not None]
    if points:
        return f"{_at(points)}: "
    trials = list(dict.fromkeys(one.trial for one in group if one.trial is not None))
    if not trials:
        return ""
    return f"trial{'s' if len(trials) > 1 else ''} {_listed(trials, _MOST_NAMES)}: "


def _at(points: Iterable[tuple[str, str]]) -> str:
    limits: dict[str, dict[str, None]] = {}
    for workload, limit in points:
        limits.setdefault(workload, {})[limit] = None
    words = [f"{name} at {_listed(list(of), _MOST_LIMITS)}".strip() for name, of in limits.items()]
    return _listed(words, _MOST_NAMES, "; ", " workloads")


def _listed(words: Sequence[str], most: int, separator: str = ", ", what: str = "") -> str:
    """All words, or the first of them and how many more there are."""
    left = len(words) - most
    # "1 more" is no shorter than the word itself.
    if left < 2:
        return separator.join(words)
    return separator.join([*words[:most], f"{left} more{what}"])


def collection_notes(points: Iterable[PointFacts]) -> list[str]:
    """A line for each workload whose rounds the garbage collector ran in."""
    taken: dict[str, list[float]] = {}
    for point in points:
        taken.setdefault(point.workload, []).extend(point.collections_s)
    return [f"{name}: {collection_note(seconds)}" for name, seconds in taken.items() if seconds]


def collection_note(seconds: Sequence[float]) -> str:
    """What garbage collections took of the rounds of these trials, in words."""
    trials = "1 trial" if len(seconds) == 1 else f"{len(seconds)} trials"
    most = format_duration(max(seconds))
    return (
        f"garbage collections took up to {most} of the rounds of {trials}; "
        'gc = "frozen" keeps them out'
    )
