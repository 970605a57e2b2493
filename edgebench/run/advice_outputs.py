"""Whether a remedy changed what a workload computes by more than it may."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from edgebench.records import TrialRecord
from edgebench.run.advice_candidates import Candidate

#: A loss may differ by this share, or by so many times what the plain trials' differ by.
_LOSS_SHARE, _LOSS_SPREADS = 0.01, 3.0


def outputs_differ(candidate: Candidate, record: TrialRecord, plain: Sequence[TrialRecord]) -> bool:
    """Whether outputs or loss differ from those of plain trials, which finished.

    Outputs must be the same to the last bit, or, of a remedy that changes them, within its
    tolerance. What a program prints is not known.
    """
    digests = [one.notes.get("output_sha256") for one in plain]
    if digests and digests[0] and not candidate.changes:
        return record.notes.get("output_sha256") not in digests
    values = next((found for one in plain if (found := one.notes.get("output_values"))), None)
    if values:
        own = record.notes.get("output_values") or []
        return relative_distance(own, values) > candidate.tolerance
    return not candidate.lossy and _loss_differs(record, plain)


def relative_distance(own: Sequence[float | None], plain: Sequence[float | None]) -> float:
    """The length of their difference as a part of the plain ones'; infinite if it has none."""
    if list(own) == list(plain):
        return 0.0
    pairs = list(zip(own, plain, strict=False))
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    if len(own) != len(plain) or len(known) != len(plain):
        return math.inf
    length = math.hypot(*(b for _, b in known))
    return math.hypot(*(a - b for a, b in known)) / length if length else math.inf


def _loss_differs(record: TrialRecord, plain: Sequence[TrialRecord]) -> bool:
    losses = [loss for one in plain if (loss := one.notes.get("loss")) is not None]
    own = record.notes.get("loss")
    if own is None or not losses:
        return False
    middle, spread = statistics.median(losses), max(losses) - min(losses)
    return bool(abs(own - middle) > max(_LOSS_SHARE * abs(middle), _LOSS_SPREADS * spread))
