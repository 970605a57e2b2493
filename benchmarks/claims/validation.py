"""How right simulated bytes, and limits that kill, are."""

from __future__ import annotations

from typing import Any

from claims.kept import DEVICE, figures


def edges() -> dict[str, Any]:
    """Which limits kill networks that never ran."""
    found: dict[str, Any] = _kept("validation-edge")["edges"]
    return found


def _kept(scenario: str) -> dict[str, Any]:
    kept: dict[str, Any] = figures("validation")[scenario]
    if not (DEVICE / kept["sweep"]).is_dir():
        raise LookupError(f"asked of {kept['sweep']}: run benchmarks/validation.py again")
    return kept


def per_cent(share: float | None, digits: int = 1) -> str:
    """``12.3 %``; a dash for none."""
    return "-" if share is None else f"{100 * share:.{digits}f} %"
