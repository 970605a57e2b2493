"""The draws of a random search over hyperparameters, and two measures of their memory.

Mahendran, "Analysis of memory consumption by neural networks based on hyperparameters", measured
the memory of the whole system every 5 s and concluded that small learning rates use more memory.
That measure is compared here with the trial's own memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgebench.analysis.studies.effects import SettingEffect, setting_effects
from edgebench.errors import ResultsError
from edgebench.words.studies import learning_rate_words

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.records import TrialRecord
    from edgebench.results.results import Results
    from edgebench.results.sweep_reader import Sweep

#: The trial's own memory; the system's are ``system_<interval>s_bytes``.
OWN = "own_bytes"
SYSTEM_PREFIX = "system_"
#: Draws that differ in one of these are never mixed.
GROUPS = ("data", "network", "optimizer", "limit_label", "background_bytes")


def draw_frame(results: Results) -> pd.DataFrame:
    """One row per trial of the search: the drawn settings, and each measure of memory in bytes.

    ``own_bytes`` is the trial's demand; ``system_5s_bytes`` the mean of the whole system's memory,
    read every 5 s while the trial ran, ``…_samples`` the number of readings.

    Raises:
        ResultsError: this sweep is not a random search.
    """
    import pandas as pd

    sweep = results.sweeps[0]
    axes = search_axes(sweep)
    frame = pd.DataFrame([_row(record, axes) for record in sweep.records])
    # A setting that a network doesn't have is None there.
    numbers = [name for name, scale in axes.items() if scale != "choice"]
    return frame.astype(dict.fromkeys([*numbers, *measures_of(frame)], "float64"))


def search_axes(sweep: Sweep) -> dict[str, str]:
    """Each drawn setting → the scale it was drawn on; ``choice`` for one of several values.

    Raises:
        ResultsError: this sweep is not a random search.
    """
    search = sweep.resolved.get("scenario", {}).get("search")
    if not search:
        raise ResultsError("this sweep is not a random search", where=str(sweep.path))
    return {name: axis.get("scale", "choice") for name, axis in search["axes"].items()}


def _row(record: TrialRecord, axes: Mapping[str, str]) -> dict[str, Any]:
    settings = record.settings
    row = {
        "trial": record.trial,
        "draw": settings.get("draw"),
        "outcome": record.outcome,
        "wall_s": record.wall_s,
        "limit_label": record.limits.label,
        **{name: settings[name] for name in GROUPS if name in settings},
        **{name: settings.get(name) for name in axes},
        OWN: record.demand_bytes,
    }
    for read in record.notes.get("system_memory", ()):
        name = f"{SYSTEM_PREFIX}{read['interval_s']:g}s"
        row |= {f"{name}_bytes": read["mean_bytes"], f"{name}_samples": read["samples"]}
    return row


def measures_of(draws: pd.DataFrame) -> list[str]:
    """The measures of memory, the trial's own first."""
    names = [str(name) for name in draws]
    system = [n for n in names if n.startswith(SYSTEM_PREFIX) and n.endswith("_bytes")]
    return [OWN, *system]


def search_effects(results: Results) -> list[SettingEffect]:
    """The effect of every drawn number on every measure, per data set, network and background.

    Repeats of a draw are one observation: their median.

    Raises:
        ResultsError: no random search, or too few draws finished.
    """
    draws = draw_frame(results)
    scales = {k: v for k, v in search_axes(results.sweeps[0]).items() if v != "choice"}
    groups = [name for name in GROUPS if name in draws and draws[name].notna().any()]
    measures = measures_of(draws)
    done = draws[draws["outcome"] == "ok"]
    if done.empty:
        raise ResultsError("no trial of the search finished", where=str(results.path))
    # Draws that differ in a setting without numbers are different trainings.
    chosen = [n for n, v in search_axes(results.sweeps[0]).items() if v == "choice"]
    keys = [*dict.fromkeys((*groups, *chosen))]
    points = done.groupby([*keys, "draw"], dropna=False, as_index=False)
    medians = points[[*scales, *measures]].median()
    found = list(setting_effects(medians, scales, measures, keys))
    if not found:
        raise ResultsError("no drawn setting is a number that varies", where=str(results.path))
    return found


@dataclass(frozen=True)
class LearningRateCheck:
    """Whether small learning rates use more memory, by one measure in one group."""

    effect: SettingEffect
    survives: bool
    says: str


def learning_rate_checks(
    found: Sequence[SettingEffect], setting: str = "learning_rate"
) -> Iterator[LearningRateCheck]:
    """The paper's conclusion checked by each measure: more memory where the rate is lower."""
    for effect in found:
        if effect.setting == setting:
            yield LearningRateCheck(effect, effect.high < 0, learning_rate_words(effect))


@dataclass(frozen=True)
class BackgroundEffect:
    """How background memory changes a measure of the same draws, as a share of the measure."""

    measure: str
    background_bytes: int
    draws: int
    median_share: float
    largest_share: float


def background_effects(draws: pd.DataFrame) -> Iterator[BackgroundEffect]:
    """Each measure with background memory, compared with the same draws without it.

    Draws are medians of their repeats; shares are of the measure without a background.
    """
    if "background_bytes" not in draws or not (draws["background_bytes"] == 0).any():
        return
    done = draws[draws["outcome"] == "ok"]
    keys = ["draw", *(n for n in GROUPS if n in done and n != "background_bytes")]
    for measure in measures_of(draws):
        table = done.pivot_table(
            index=keys, columns="background_bytes", values=measure, aggfunc="median", dropna=False
        )
        for size in (int(column) for column in table.columns.tolist() if column):
            moved = ((table[size] - table[0]) / table[0]).dropna()
            if len(moved):
                yield BackgroundEffect(
                    measure,
                    size,
                    len(moved),
                    float(moved.abs().median()),
                    float(moved.abs().max()),
                )
