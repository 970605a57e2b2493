"""How right the slowdown model is, from the points that ``model_forms.py`` keeps."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from claims.kept import figures

#: Sweeps by column: storage at a declared speed with one thread and with two; as it is.
COLUMNS = ("validation-one-thread", "validation-two-threads", "validation")
#: What is known of a network that is predicted.
KNOWN, UNLIMITED, NEVER = "a limit left out", "unlimited known", "never run"
#: Forms: the product's, the curve through the points alone, and what was compared with them.
SIMULATED, THROUGH, CLIFF = "simulated", "interpolated", "cliff"
_LEVEL, _DRAWS, _SEED = 0.9, 2000, 39
Point = dict[str, Any]


@cache
def points(sweep: str, use: str, phase: str | None, form: str) -> tuple[Point, ...]:
    """The points of a form, of starts and steady rounds where no phase is named."""
    return tuple(
        one
        for one in figures("model_forms").get(sweep, ())
        if (one["use"], one["form"]) == (use, form) and phase in (None, one["phase"])
    )


def error(of: Iterable[Point]) -> tuple[float, float, float] | None:
    """The median over workloads of their medians, with its 90 % bootstrap interval over these."""
    return _of_workloads(of, lambda one: abs(one["predicted_s"] / one["measured_s"] - 1))


def unslowed(of: Iterable[Point]) -> tuple[float, float, float] | None:
    """The same of saying that no limit slows anything."""
    return _of_workloads(of, lambda one: 1 - 1 / one["slowdown"])


def _of_workloads(of: Iterable[Point], size: Any) -> tuple[float, float, float] | None:
    groups: dict[str, list[float]] = {}
    for one in of:
        groups.setdefault(one["workload"], []).append(size(one))
    if not groups:
        return None
    medians = np.array([np.median(own) for own in groups.values()])
    random = np.random.default_rng(_SEED)
    draws = np.median(medians[random.integers(0, len(medians), (_DRAWS, len(medians)))], axis=1)
    low, high = np.quantile(draws, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return float(np.median(medians)), float(low), float(high)


def scores(use: str) -> dict[str, list[tuple[str, float]]]:
    """By network, of all sweeps, each point's sweep and the least reach that holds it."""
    found: dict[str, list[tuple[str, float]]] = {}
    for sweep in COLUMNS:
        for one in points(sweep, use, None, SIMULATED):
            network = one["workload"].split()[0]
            found.setdefault(network, []).append((sweep, one["score"]))
    return found


def reach(use: str, without: str | None = None) -> float:
    """The reach that nine of ten of the points stay within, of all networks but one."""
    from edgebench.slowdown.models.intervals import reach_of

    groups = [
        np.array([score for _, score in own])
        for network, own in scores(use).items()
        if network != without
    ]
    found = reach_of(groups)
    assert found is not None
    return found


def coverage(use: str, sweep: str) -> float | None:
    """How many of a sweep's points an interval holds that was learnt without their network."""
    held = [
        score <= reach(use, network)
        for network, own in scores(use).items()
        for where, score in own
        if where == sweep
    ]
    return float(np.mean(held)) if held else None
