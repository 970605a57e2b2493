"""The adaptive plan replayed on the earlier edgecaffe sweep, by the tests' own means."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from typing import Any

from claims.edgecaffe import AS_IS
from claims.kept import DEVICE, ROOT


@cache
def _tools() -> Any:
    sys.path.insert(0, str(ROOT / "tests" / "scenario"))
    import test_adaptive_replay

    return test_adaptive_replay


@cache
def measured() -> tuple[Any, Any]:
    """The sweep's points, and each point's trials in the order of their repeats."""
    from edgebench.results.sweep_reader import read_sweep
    from edgebench.scenario.points import points
    from edgebench.scenario.scenario import load_scenario

    path, made = DEVICE / AS_IS, dict[str, list[Any]]()
    for record in sorted(read_sweep(path).records, key=lambda record: record.repeat):
        made.setdefault(record.point, []).append(record)
    return points(load_scenario(path / "scenario.toml")), made


def adaptive() -> tuple[int, float]:
    """Trials that the adaptive plan takes, and how far it then is off on average, in per cent."""
    every, trials = measured()
    made = _tools().replayed(every, trials, _tools().TARGET)
    return len(made), 100 * _tools().mean_error(made, trials)


def grid(labels: Iterable[str] | None, repeats: int) -> tuple[int, float]:
    """The same of an even grid of these limits; None is all."""
    every, trials = measured()
    wanted = labels or {point.limits.label for point in every}
    made = _tools().grid(every, trials, wanted, repeats)
    return len(made), 100 * _tools().mean_error(made, trials)
