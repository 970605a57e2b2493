"""Which points of two sweeps are the same, by their settings."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from edgebench.boards.storage import AS_IS, storage_words
from edgebench.errors import ResultsError, UsageError
from edgebench.records import TrialRecord
from edgebench.results.sweep_reader import Sweep
from edgebench.results.workload_key import WorkloadKey, workload_label

COLLECTOR_REMEDY = (
    'one ran with gc = "default" (all sweeps did before it was a setting): run the other with '
    'gc = "default" in [workload] too'
)
STORAGE_REMEDY = "to compare them anyway: --across-storage"

#: A point's name → its trials.
_Points: TypeAlias = Mapping[Hashable, Sequence[TrialRecord]]


@dataclass(frozen=True)
class SharedPoints:
    """The trials of each shared point in both sweeps, and the points of one of them, in words."""

    pairs: list[tuple[Sequence[TrialRecord], Sequence[TrialRecord]]]
    only_a: list[str]
    only_b: list[str]


def shared_points(a: Sweep, b: Sweep, across_storage: bool) -> SharedPoints:
    """The points that two sweeps share; ``across_storage``: their storage may differ.

    Raises:
        UsageError: the sweeps are of different storage.
        ResultsError: they have no point in common.
    """
    other_storage = _other_storage(a, b, across_storage)
    points_a, points_b = _points(a, other_storage), _points(b, other_storage)
    common = [key for key in points_a if key in points_b]
    if not common:
        raise ResultsError(
            "the sweeps have no point in common: no workload ran at the same limit in both",
            where=f"{a.path} and {b.path}",
            remedy=COLLECTOR_REMEDY if _but_for_gc(a, b) else "compare two sweeps of one scenario",
        )
    return SharedPoints(
        [(points_a[key], points_b[key]) for key in common],
        [_words(points_a[key]) for key in points_a if key not in points_b],
        [_words(points_b[key]) for key in points_b if key not in points_a],
    )


def _other_storage(a: Sweep, b: Sweep, wanted: bool) -> bool:
    """Whether points of different storage are paired: they share none, and that is wanted."""
    of_a, of_b = ({record.limits.storage for record in sweep.records} for sweep in (a, b))
    if not of_a or not of_b or of_a & of_b:
        return False
    if not wanted or len(of_a) > 1 or len(of_b) > 1:
        names = [" and ".join(map(storage_words, sorted(of))) for of in (of_a, of_b)]
        remedy = STORAGE_REMEDY if not wanted else "compare sweeps that have one storage each"
        raise UsageError(
            f"the sweeps are of different storage, so their times can't be compared: {names[0]} "
            f"in a, {names[1]} in b",
            remedy=remedy,
        )
    return True


def _points(sweep: Sweep, any_storage: bool) -> _Points:
    points: dict[Hashable, list[TrialRecord]] = {}
    for record in sweep.records:
        key = WorkloadKey.of(record.settings, record.limits)
        key = key.but_for(("storage",)) if any_storage else key
        # A share's bytes follow from that sweep's own demand, so the label pairs them.
        points.setdefault((key, record.limits.label), []).append(record)
    return points


def _but_for_gc(a: Sweep, b: Sweep) -> bool:
    """Whether a workload of both differs in its use of the garbage collector alone."""
    keys = [
        {WorkloadKey.of({**record.settings, "gc": None}, record.limits) for record in sweep.records}
        for sweep in (a, b)
    ]
    return bool(keys[0] & keys[1])


def _words(records: Sequence[TrialRecord]) -> str:
    limits = records[0].limits
    held = "" if limits.storage == AS_IS else f", {storage_words(limits.storage)}"
    return f"{workload_label(records[0].settings)} at {limits.label}{held}"
