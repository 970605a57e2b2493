"""How right the slowdown model is about what was held out, and what the plain rules say."""

from __future__ import annotations

import math
import statistics
from functools import cache
from typing import TYPE_CHECKING, Any

from claims.kept import DEVICE, figures, sweep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgebench.slowdown.evaluation.viability_scores import (
        ViabilityEdge,
        ViabilityPrediction,
        ViabilityScore,
    )
    from edgebench.slowdown.viability import ViabilityTrial

#: The families asked about apart.
APART = ("convnext", "densenet")
#: Scores of a use and model, by band of slowdown.
Bands = dict[str, dict[str, Any]]


@cache
def scores(scenario: str = "validation", phase: str = "all") -> dict[tuple[str, str], Bands]:
    """Those of each use and model, as ``edgebench validate`` prints them."""
    kept = figures("validation").get(scenario)
    if kept is None:
        return {}
    if not (DEVICE / kept["sweep"]).is_dir():
        raise LookupError(f"asked of {kept['sweep']}: run benchmarks/validation.py again")
    found: dict[tuple[str, str], Bands] = {}
    for score in kept["uses"][phase]:
        found.setdefault((score["use"], score["model"]), {})[score["band"]] = score
    return found


def per_cent(share: float | None, digits: int = 1) -> str:
    """``12.3 %``; a dash for none."""
    return "-" if share is None else f"{100 * share:.{digits}f} %"


@cache
def viability_trials() -> list[ViabilityTrial]:
    """The trials of the second sweep whose swap is bounded."""
    from edgebench.slowdown.viability import viability_trials

    return viability_trials(sweep("validation-edge"))


@cache
def _judged() -> tuple[dict[str, list[ViabilityPrediction]], dict[str, list[ViabilityEdge]]]:
    from edgebench.slowdown.evaluation.viability_scores import cross_validate_viability

    return cross_validate_viability(viability_trials(), APART)


def viability(split: str) -> ViabilityScore:
    """How right what is learnt of viability is."""
    from edgebench.slowdown.evaluation.viability_scores import score_viability

    judged, edges = _judged()
    return score_viability(split, judged[split], edges[split])


def rule_right(split: str | None = None) -> float:
    """Per cent of trials of which "limit + swap ≥ measured demand" says how they ended."""
    some = viability_trials() if split is None else [one.trial for one in _judged()[0][split]]
    return 100 * statistics.mean((trial.room >= 0) == trial.viable for trial in some)


def rule_edges() -> tuple[int, int]:
    """How many edges the same rule places within 10 %, and of how many."""
    errors = [
        _rule_error(edge, [j.trial for j in _judged()[0][split]])
        for split in ("network", "held-out")
        for edge in _judged()[1][split]
    ]
    return sum(error <= math.log(1.1) for error in errors), len(errors)


def _rule_error(edge: ViabilityEdge, some: Sequence[ViabilityTrial]) -> float:
    """``|ln(said / seen)|`` of the rule, 0 within the interval that was seen."""
    need = next(
        trial.need_bytes
        for trial in some
        if (trial.network, trial.swap_bytes, trial.limit_bytes)
        == (edge.network, edge.swap_bytes, edge.killed_bytes)
    )
    said = max(need - edge.swap_bytes, 1.0)
    return abs(math.log(said / min(max(said, edge.killed_bytes), edge.viable_bytes)))
