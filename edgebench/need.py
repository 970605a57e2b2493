"""How much memory a workload needs: told by a run without a limit, by kills, and by a miss curve.

A need is memory that can't be dropped, and files that are read again when dropped. A miss curve
has a knee: where the workload begins to read its memory again in every round.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from edgebench.records import WITH_PEAK, KillReport, Outcome, TrialRecord

#: What the sampler of an earlier version missed counts from this share of the peak on.
_UNSEEN = 0.05
#: Needs that differ by more than this share, and by more than the kernel's batches of pages.
_DIFFERS, _SAME_BYTES = 0.05, 1 << 20
#: Files are told apart from the rest of a need from this share of it on, and this size.
_FILES_SHARE, _FILES_BYTES = 0.05, 1 << 20

#: Outcomes of a limit at which the workload does not finish.
LOST: tuple[Outcome, ...] = ("oom-killed", "accelerator-oom", "timeout", "failed")
#: Outcomes that show that a limit is too tight; other failures do not.
TOO_TIGHT = ("oom-killed", "timeout")
#: Where such kills are explained.
OBSERVER_EFFECT = "docs/explanation/observer-effect.md"

#: Rounds read the same if they differ by no more: as a share, and in bytes (64 pages of 4 KiB,
#: which the kernel charges at once).
EQUAL_SHARE, EQUAL_BYTES = 0.01, 64 * 4096
#: Fewer bytes are no plateau: what a runtime reads now and then.
LEAST_PLATEAU_BYTES = 1 << 20
#: The tightest limit lies on the plateau if the next wider one reads at least this share of it.
FLAT_SHARE = 0.8
#: Where added bytes pass this share of the plateau, the knee is.
KNEE_SHARE = 0.5

#: Limits closer together than this share of the wider one are one place: so closely a knee is
#: looked for, and within it visits may disagree.
CLOSE_SHARE = 0.03

#: Why a workload has no knee: nothing was measured at a limit (``no_limits``) or counted
#: (``no_counts``), there are no steady rounds (``no_rounds``), nothing was read again
#: (``never_read``), a kill came before a plateau (``killed``), it still read more at the tightest
#: limit (``rising``), it read as much at the widest (``wider``), or visits of a limit, or of one
#: and a tighter one, disagree on which side of the knee they are (``disagree``).
NoKnee = Literal[
    "no_limits", "no_rounds", "no_counts", "never_read", "killed", "rising", "wider", "disagree"
]  # fmt: skip
#: Limit → what a steady round reads again there, for each visit.
Visits = Mapping[int, Sequence[int]]


@dataclass(frozen=True)
class Need:
    """A need in bytes.

    Args:
        total_bytes: all of it.
        undroppable_bytes: what only swap can hold; None: not known.
        elsewhere_bytes: files in the total that another cgroup was charged for.
    """

    total_bytes: float
    undroppable_bytes: float | None = None
    elsewhere_bytes: float = 0

    @property
    def has_much_elsewhere(self) -> bool:
        """Whether so much was charged to another cgroup that limits were kinder for it."""
        return self.elsewhere_bytes >= max(_FILES_BYTES, _FILES_SHARE * self.total_bytes)

    @property
    def files_bytes(self) -> float:
        """Files that are read again when dropped; 0 where they are too few to be told apart."""
        if self.undroppable_bytes is None:
            return 0
        files = self.total_bytes - self.undroppable_bytes
        return files if files >= max(_FILES_SHARE * self.total_bytes, _FILES_BYTES) else 0


def need_of(record: TrialRecord) -> Need | None:
    """Return a trial's need; None: not known.

    The demand, and what it used of files that were charged elsewhere. A demand of an earlier
    version lacks what the sampler missed: it gets what the kernel's peak has beyond the samples.
    """
    demand, undroppable = record.demand_bytes, record.undroppable_bytes
    if demand is None:
        return None
    if not (record.demand_source or "").endswith(WITH_PEAK):
        peak, sampled = record.peak_bytes or 0, record.sampled_peak_bytes
        late = record.files.late_bytes if record.files else 0
        unseen = peak - sampled - late if sampled is not None else 0
        unseen = unseen if unseen > _UNSEEN * peak else 0
        demand += unseen
        undroppable = None if undroppable is None else undroppable + unseen
    elsewhere = record.files.elsewhere_bytes or 0 if record.files else 0
    return Need(demand + elsewhere, undroppable, elsewhere)


def differs(least_bytes: float, most_bytes: float) -> bool:
    """Whether two needs differ by more than noise."""
    return most_bytes - least_bytes > max(_DIFFERS * least_bytes, _SAME_BYTES)


def least_to_give(needs: Sequence[Need]) -> float | None:
    """Return the need, in bytes, if trials under limits need less than a first run; else None.

    Args:
        needs: of runs without a limit, in their order. Either only the first of them differs, for
            it left something behind; or much was charged to another cgroup, so that limits were
            kinder.
    """
    sizes = [need.total_bytes for need in needs]
    later = sizes[1:]
    is_first = len(later) > 1 and differs(max(later), sizes[0])
    is_first = is_first and not differs(min(later), max(later))
    is_kinder = is_first or any(need.has_much_elsewhere for need in needs)
    return max(sizes) if is_kinder else None


def swap_was_free(kill: KillReport | None) -> bool | None:
    """Whether most of the swap that the trial might use was free at the kill.

    None: nothing was killed, or that is not known.
    """
    if kill is None or kill.swap_allowed_bytes is None or kill.swap_free_bytes is None:
        return None
    # With half of the swap free, a lack of swap can't have been the cause.
    return 0 < kill.swap_allowed_bytes <= 2 * kill.swap_free_bytes


def is_locked(kill: KillReport) -> bool:
    """Whether most of what could not be reclaimed at a kill was locked in memory."""
    lists = (kill.active_anon_bytes, kill.inactive_anon_bytes, kill.active_file_bytes)
    return (kill.unevictable_bytes or 0) > sum(size or 0 for size in lists)


def needs_explanation(record: TrialRecord) -> bool:
    """Tell whether the outcome alone doesn't explain a kill.

    The command went on, or swap was free.
    """
    odd = record.exit_code == 0 or record.killed_with_swap_free is True
    return record.outcome == "oom-killed" and odd


@dataclass(frozen=True)
class KneeBracket:
    """The limits around a knee.

    Args:
        low_bytes: the widest limit at which rounds read memory again, as at all tighter ones.
        high_bytes: the tightest one at which they don't, as at no wider one.
        disagree: the limits between these two.
    """

    low_bytes: int
    high_bytes: int
    disagree: tuple[int, ...] = ()

    @property
    def known_to(self) -> float:
        """Their distance, as a share of the higher one."""
        return 1 - self.low_bytes / self.high_bytes


@dataclass(frozen=True)
class Knee:
    """What the added bytes of one direction come to.

    Args:
        plateau_bytes: what a round reads again where a tighter limit hardly adds to it.
        knee_bytes: the limit where the added bytes pass half of the plateau.
        between: the tighter limit, at which they do, and the wider one, at which they don't.
        missing: why there is no knee; None: there is one.
    """

    plateau_bytes: int | None = None
    knee_bytes: int | None = None
    between: tuple[int, int] | None = None
    missing: NoKnee | None = None


def equal_bytes(one: float, other: float) -> bool:
    """Whether two rounds read the same."""
    return abs(one - other) <= max(EQUAL_BYTES, EQUAL_SHARE * max(one, other))


def settled(read: Sequence[int | None]) -> tuple[int, ...]:
    """Return the places of the last rounds that read alike; empty: fewer than two do.

    The first one is none of them: it pays for a change of the limit, or for a start.
    """
    last = read[-1] if read else None
    if last is None:
        return ()
    first = len(read)
    while first > 1 and (one := read[first - 1]) is not None and equal_bytes(one, last):
        first -= 1
    return tuple(range(first, len(read))) if len(read) - first > 1 else ()


def medians(visits: Visits) -> dict[int, int]:
    """Limit → the median of its visits."""
    return {limit: round(statistics.median(read)) for limit, read in visits.items()}


def find_knee(visits: Visits, killed_bytes: int | None = None) -> Knee:
    """Return the knee of one direction.

    Args:
        visits: to its limits.
        killed_bytes: the largest limit at which the workload was killed; None: at none.
    """
    added = medians(visits)
    plateau = plateau_of(added)
    if plateau is None:
        if killed_bytes or not added:
            return Knee(missing="killed" if killed_bytes else "no_limits")
        rises = max(added.values()) >= LEAST_PLATEAU_BYTES
        return Knee(missing="rising" if rises else "never_read")
    half = KNEE_SHARE * plateau
    limits = bracket(visits, half)
    if limits is None:
        widest = visits[max(visits)]
        return Knee(plateau, missing="wider" if _side(widest, half) > 0 else "disagree")
    low, high = between = limits.low_bytes, limits.high_bytes
    if limits.disagree and limits.known_to > CLOSE_SHARE:
        return Knee(plateau, between=between, missing="disagree")
    share = (added[low] - half) / (added[low] - added[high])
    knee = math.exp(math.log(low) + share * math.log(high / low))
    return Knee(plateau, round(knee), between)


def bracket(visits: Visits, half: float) -> KneeBracket | None:
    """Return the limits around the knee; None: there is none on one of its sides.

    A limit is on the side that most of its visits are on. Limits lie between both sides where as
    many visits are on the one as on the other, or where a tighter limit reads less than half and a
    wider one more: their process was in two states.

    Args:
        visits: to limits.
        half: of the plateau, bytes; who reads more is on the tight side.
    """
    sides = {limit: _side(read, half) for limit, read in visits.items()}
    tight = {limit for limit, side in sides.items() if side > 0}
    wide = {limit for limit, side in sides.items() if side < 0}
    low = max((limit for limit in tight if limit < min(wide, default=math.inf)), default=None)
    high = min((limit for limit in wide if limit > max(tight, default=0)), default=None)
    if low is None or high is None:
        return None
    return KneeBracket(low, high, tuple(limit for limit in sorted(visits) if low < limit < high))


def disagreeing(visits: Visits, half: float) -> set[int]:
    """Return the limits of which visits don't tell the side.

    By themselves, or beside other limits.
    """
    found = bracket(visits, half)
    torn = {limit for limit, read in visits.items() if _side(read, half) == 0}
    return torn.union(found.disagree if found else ())


def _side(read: Iterable[int], half: float) -> int:
    """By how many visits more read more than half than not."""
    return sum(1 if one > half else -1 for one in read)


def plateau_of(added: Mapping[int, int]) -> int | None:
    """Return the median bytes of the tightest limits that read alike.

    None: they don't, or read little.
    """
    limits = sorted(added)
    tight = added[limits[0]] if limits else 0
    flat = list(itertools.takewhile(lambda limit: added[limit] >= FLAT_SHARE * tight, limits))
    if len(flat) < 2:
        return None
    plateau = int(statistics.median(added[limit] for limit in flat))
    return plateau if plateau >= LEAST_PLATEAU_BYTES else None
