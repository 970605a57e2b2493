"""What the environment said to the C library's allocator, among the settings of curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from edgebench.slowdown.simulator.allocator import MALLOC

if TYPE_CHECKING:
    from edgebench.results.results import Results
    from edgebench.slowdown.curves import Curve

#: How the names of these variables begin.
_MALLOC = "MALLOC_"


def with_variables(curves: Iterable[Curve], results: Results) -> list[Curve]:
    """The curves; those of sweeps with such variables have them in one more setting."""
    words = {sweep.name: allocator_words(sweep.environment) for sweep in results.sweeps}
    found = []
    for curve in curves:
        own = words.get(str(curve.settings.get("sweep")))
        settings = {**curve.settings, MALLOC: own} if own else curve.settings
        found.append(replace(curve, settings=settings))
    return found


def allocator_words(environment: Mapping[str, object]) -> str:
    """``NAME=value NAME=value`` of a sweep's environment; empty without any."""
    variables = environment.get("variables")
    if not isinstance(variables, dict):
        return ""
    own = ((k, v) for k, v in sorted(variables.items()) if k.startswith(_MALLOC))
    return " ".join(f"{k}={v}" for k, v in own)
