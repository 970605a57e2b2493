"""The same training in several frameworks: memory and time by phase of each.

The comparison of Torres, Barrios and Denneulin, "Computational Resource Consumption in
Convolutional Neural Network Training – A Focus on Memory".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgebench.analysis.studies.partial_training import step_median
from edgebench.errors import ResultsError
from edgebench.workloads.training.names import GRAPH, PYTORCH, TITLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from edgebench.results.results import Results

KIND = "training"
#: What is equal in one row; those after the first are shown where they differ.
SHARED = ("network", "data", "shape", "optimizer", "batch", "limit_label")
#: The phases of a step, in their order.
PHASES = ("data", "forward", "backward", "step", GRAPH)
#: Strategies that read a framework's own allocator.
_OWN = ("torch", "categories", "tensorflow")


def framework_title(settings: Mapping[str, Any]) -> str:
    """The framework as tables name it: ``TensorFlow compiled``."""
    name = str(settings.get("framework", PYTORCH))
    # A sweep of a newer version, or of anybody's making, may name another.
    title = TITLES.get(name, name)
    # Missing in a frame, it is NaN.
    return f"{title} compiled" if settings.get("compiled") is True else title


def framework_frame(results: Results) -> pd.DataFrame:
    """One row per timed training: what it is of, its ``framework`` in words, memory and times.

    ``peak_bytes`` is the kernel's, ``own_bytes`` the peak that the framework's own allocator told
    in another trial of the point. ``…_s`` of each phase are medians of the steps after the first,
    seconds an image; ``whole_s`` is their sum. What is unknown is NaN.

    Raises:
        ResultsError: this sweep trained in one framework, or in none.
    """
    import pandas as pd

    own = _own_peaks(results)
    rows = []
    for sweep in results.sweeps:
        for record in sweep.records:
            settings = record.settings
            if settings.get("kind") != KIND:
                continue
            found = {phase: step_median(record, phase) for phase in PHASES}
            seconds = {k: s / settings["batch"] for k, s in found.items() if s is not None}
            rows.append(
                {
                    **{name: settings.get(name) for name in SHARED},
                    "limit_label": record.limits.label,
                    "framework": framework_title(settings),
                    "outcome": record.outcome,
                    "peak_bytes": record.peak_bytes if record.outcome == "ok" else None,
                    "own_bytes": own.get((sweep.name, record.point)),
                    **{f"{phase}_s": seconds.get(phase) for phase in PHASES},
                    "whole_s": sum(seconds.values()) or None,
                }
            )
    if len({row["framework"] for row in rows}) < 2:
        raise ResultsError(
            'no two frameworks trained in this sweep: framework = ["pytorch", "tensorflow"]'
        )
    frame = pd.DataFrame(rows)
    figures = [name for name in rows[0] if name.endswith(("_bytes", "_s"))]
    return frame.astype(dict.fromkeys(figures, "float64"))


def _own_peaks(results: Results) -> dict[tuple[str, str], int | None]:
    """Sweep and point → the framework's own peak, bytes."""
    return {
        (sweep.name, record.point): sweep.reading(record.trial).peak_bytes
        for sweep in results.sweeps
        for record in sweep.strategy_records
        if record.strategy in _OWN and record.outcome == "ok" and "reading" not in record.missing
    }
