"""What was measured of a workload, in one sentence: needs, slowdowns, kills.

As in all sentences, a slowdown is claimed only where the repeats prove one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from edgebench.results.facts import WorkloadFacts
from edgebench.results.point_facts import PointFacts
from edgebench.results.spread import SLIGHT
from edgebench.text import joined_words
from edgebench.units import format_duration, format_size, format_times, times_as_long
from edgebench.words.boards import workload_board_sentence
from edgebench.words.claims import IN_ONE_TRIAL, before_end, one_trial_words
from edgebench.words.labels import limit_label, pass_words, throughput_of
from edgebench.words.outcomes import outcome_words
from edgebench.words.slowdown import later_start_words
from edgebench.words.unmeasured import program_need_words, unmeasured_parts

#: More workloads than this are summed up in one sentence.
_MOST = 6
#: The slowdown whose limit is named beside the first one and the last.
_TWICE = 2.0


def sweep_sentences(found: Sequence[WorkloadFacts], names: dict[str, str]) -> list[str]:
    """A sentence for each workload, under these names; one for all of them if there are many.

    Of few workloads, whether their boards have enough follows.
    """
    if len(found) <= _MOST:
        sentences = [workload_sentence(one, names[one.name]) for one in found]
        return [*sentences, *dict.fromkeys(filter(None, map(workload_board_sentence, found)))]
    demands = [one.demand_bytes for one in found if one.demand_bytes is not None]
    words = [f"{len(found)} workloads"]
    if demands:
        least, most = format_size(min(demands)), format_size(max(demands))
        words[0] += f" need {least}" + (f" to {most}" if least != most else "")
    tried = [point for one in found for point in one.tried]
    if not tried:
        return [f"{words[0]} without a limit; no limit was tried."]
    lost = [point for one in found for point in one.lost]
    if lost:
        words.append(f"at {len(lost)} of {len(tried)} limits trials were killed or failed")
    else:
        words.append(f"every trial finished at all {len(tried)} limits tried")
    worst = max(
        ((p.slowdown or 0.0, one, p) for one in found for p in one.slowed),
        key=lambda found: found[0],
        default=None,
    )
    if worst:
        name, at = names[worst[1].name], _factors([worst[2]])
        words.append(f"slowed most: {name}, which takes {at}")
    return ["; ".join(words) + "."]


def workload_sentence(workload: WorkloadFacts, name: str) -> str:
    """``alexnet needs 462.7 MiB; takes 1.6 times as long at 392.9 MiB and 28 times at …``."""
    need = workload.need
    unlimited = workload.unlimited
    words = [program_need_words(name, need, workload.unmeasured)]
    opens = list(unmeasured_parts(workload.unmeasured))
    if not workload.tried:
        if unlimited is None:
            return f"{words[0]}; no trial has finished."
        seconds = format_duration(unlimited.times_s["total"].median)
        pace = f"{pass_words(workload)} takes {seconds}"
        if throughput_of(unlimited):
            pace = f"does {throughput_of(unlimited)}"
        return "; ".join([f"{words[0]} and {pace}", *opens, "no limit was tried."])
    words += opens
    if unlimited and throughput_of(unlimited):
        words.append(f"{throughput_of(unlimited)} without a limit")
    words += [*later_start_words(workload), *_slowdowns(workload), _ends(workload)]
    return "; ".join(words) + "."


def _slowdowns(workload: WorkloadFacts) -> Iterator[str]:
    """What the limits do to it once it runs, or to its start where only one round was run."""
    if not any(point.ratio for point in workload.tried):
        if workload.unlimited is None:
            yield "no trial finished without a limit, so it is unknown whether one slows it"
        return
    of = "once running, " if workload.has_steady else "at its start " if workload.has_rounds else ""
    found = list(_slower_words(workload, "it takes" if of else "takes"))
    yield from [f"{of}{words}" if n == 0 else words for n, words in enumerate(found)]


def _slower_words(workload: WorkloadFacts, takes: str) -> Iterator[str]:
    fast = workload.fast
    below = workload.tried[workload.tried.index(fast) + 1 if fast else 0 :]
    slower = [point for point in below if point.is_slower]
    # That all of its need is enough goes without saying, where more can be said.
    demand, size = workload.demand_bytes, fast.limit_bytes if fast else None
    is_plain = demand is not None and size is not None and size >= demand
    if fast is not None and not (is_plain and slower):
        yield f"at most 10% slower down to {limit_label(fast)}"
    twice = [point for point in slower if (point.slowdown or 0.0) >= _TWICE]
    wanted = {p.point for p in (*slower[:1], *twice[:1], *slower[-1:])}
    named = [point for point in slower if point.point in wanted]
    if named:
        yield f"{takes} {_factors(named)}"
    elif fast is None:
        yield _unproved(workload)


def _unproved(workload: WorkloadFacts) -> str:
    """What the repeats leave open, with what they show all the same."""
    seen = [point for point in workload.viable or workload.tried if point.ratio]
    offs = [point.ratio.off for point in seen if point.ratio and point.ratio.off is not None]
    if not seen or any((point.slowdown or 0.0) > SLIGHT for point in seen):
        return "the repeats differ too much to tell whether a limit slows it"
    where = limit_label(seen[-1])
    if offs:
        return f"no slowdown seen down to {where}, though repeats differ by {max(offs):.0%}"
    return f"no slowdown seen down to {where}{_once([one_trial_words(p) for p in seen])}"


def _ends(workload: WorkloadFacts) -> str:
    """What happened at the tightest limits."""
    lost = workload.lost
    if not lost:
        return f"finished at every limit tried, down to {limit_label(workload.tried[-1])}"
    outcomes, where = lost[0].outcomes, limit_label(lost[0])
    made = sum(outcomes.values())
    counts = {outcome_words(name).brief: n for name, n in outcomes.items() if name != "ok"}
    doing, slow = before_end(workload, lost[0])
    after = f"{doing}, {slow}" if slow else doing
    if len(outcomes) == 1:
        ends = next(iter(counts))
    else:
        ends = f"{joined_words(f'{how} in {n}' for how, n in counts.items())} of {made} trials"
    return f"{ends} at {where}{after}{_all_the_same(workload)}"


def _all_the_same(workload: WorkloadFacts) -> str:
    """That the tightest limit was finished at, though a wider one was not."""
    tightest = workload.tried[-1]
    return f", but finished at {limit_label(tightest)}" if tightest.finished else ""


def _factors(points: Sequence[PointFacts]) -> str:
    """``1.6 times as long at 392.9 MiB and 28 times at …``, and how little that rests on."""
    said = [_factor_at(points[0], times_as_long), *map(_factor_at, points[1:])]
    rest = [one_trial_words(point) for point in points]
    if len(set(rest)) == 1:
        return joined_words(said) + _once(rest)
    return joined_words(words + own for words, own in zip(said, rest, strict=True))


def _once(rest: Sequence[str]) -> str:
    """How little several limits rest on, said after the last one."""
    if len(rest) > 1 and set(rest) == {IN_ONE_TRIAL}:
        return ", one trial each"
    return next((words for words in rest if words != IN_ONE_TRIAL), rest[0])


def _factor_at(point: PointFacts, words: Callable[[float], str] = format_times) -> str:
    rate = f" ({throughput_of(point)})" if throughput_of(point) else ""
    return f"{words(point.slowdown or 0.0)}{rate} at {limit_label(point)}"
