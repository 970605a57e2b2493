"""What the training sweep shows: LeNet on the digits at four limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from claims.kept import sweep

if TYPE_CHECKING:
    import pandas as pd

LABELS = ("max", "85%", "70%", "55%")


def _phase(label: str, phase: str) -> pd.DataFrame:
    phases = sweep("training").phases
    return phases[(phases["limit_label"] == label) & (phases["phase"] == phase)]


def first_steps_ms(label: str) -> list[float]:
    """The first step of each trial."""
    whole = _phase(label, "round")
    return [float(x) * 1e3 for x in whole[whole["round"] == 0].sort_values("trial")["wall_s"]]


def later_ms(label: str) -> list[float]:
    """Of each trial the median of the steps after the first."""
    own = _phase(label, "round")
    return [float(x) * 1e3 for x in own[own["round"] > 0].groupby("trial")["wall_s"].median()]


def trials(label: str) -> pd.DataFrame:
    """In their order."""
    all_trials = sweep("training").trials
    return all_trials[all_trials["limit_label"] == label].sort_values("trial")
