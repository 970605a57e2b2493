"""Which ledgers must close in real trials."""

from __future__ import annotations

from edgebench.analysis.reconciliation import Reconciliation
from edgebench.measures.ledger import Ledger


def must_close(point: Reconciliation, ledger: Ledger) -> bool:
    """All but the resident sets of two trials at a limit: the kernel chooses what stays in RAM."""
    at_a_limit = point.record.limit_bytes is not None
    return not (at_a_limit and ledger.source.strategy == "gnu-time")
