"""The sentence on how far memory strategies lie apart, and what of it nothing explains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgebench.units import format_size

if TYPE_CHECKING:
    from edgebench.analysis.reconcile.reconciliation import Reconciliation


def reconciliation_sentence(found: Sequence[Reconciliation]) -> str:
    """How far the strategies' peaks lie apart, and how much of that nothing explains."""
    gaps = []
    for one in found:
        trials = (one.chain.timed, *one.chain.own.values())
        read = [r.peak_bytes for trial in trials for r in trial.readings.values()]
        peaks = [peak for peak in read if peak is not None]
        gaps += [max(peaks) - min(peaks)] if peaks else []
    rests = [abs(ledger.unexplained_bytes) for one in found for ledger in one.ledgers]
    points = "this point" if len(found) == 1 else f"{len(found)} points"
    if not gaps or not rests:
        return f"Nothing can be compared: no two strategies measured the same memory of {points}."
    return (
        f"Strategies' peaks of {points} differ by up to {format_size(max(gaps))}; of what the "
        f"ledgers compare, at most {format_size(max(rests))} is unexplained."
    )
