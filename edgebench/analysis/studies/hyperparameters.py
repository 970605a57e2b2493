"""The draws of a random search over hyperparameters, and two measures of their memory.

Mahendran, "Analysis of memory consumption by neural networks based on hyperparameters", measured
the memory of the whole system every 5 s and concluded that small learning rates use more memory.
That measure is compared here with the trial's own memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from edgebench.analysis.studies.effects import SettingEffect, setting_effects
from edgebench.analysis.studies.tables import Column, StudyTable
from edgebench.errors import ResultsError
from edgebench.units import MIB

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.analysis.studies.effects import SettingEffect
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
    axes = search.get("axes") if isinstance(search, dict) else None
    if not isinstance(axes, dict):
        raise ResultsError("this sweep is not a random search", where=str(sweep.path))
    drawn = {name: axis for name, axis in axes.items() if isinstance(axis, dict)}
    return {name: str(axis.get("scale", "choice")) for name, axis in drawn.items()}


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


def learning_rate_checks(
    found: Sequence[SettingEffect], setting: str = "learning_rate"
) -> Iterator[LearningRateCheck]:
    """The paper's conclusion checked by each measure: more memory where the rate is lower."""
    for effect in found:
        if effect.setting == setting:
            yield LearningRateCheck(effect, effect.high < 0)


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


def search_tables(results: Results) -> list[StudyTable]:
    """Trials, effects with intervals, the paper's conclusion, and the effect of background memory.

    Raises:
        ResultsError: this sweep is not a random search.
    """
    trials = _trials(results)
    try:
        return [trials, *_effect_tables(results)]
    except ResultsError as error:
        # The trials are shown even if they are too few for effects.
        return [replace(trials, says=(f"no effects: {error.what}",))]


def _trials(results: Results) -> StudyTable:
    """One row per trial, as in the paper's tables, with every measure."""
    draws = draw_frame(results)
    groups = [name for name in GROUPS if name in draws and draws[name].nunique() > 1]
    axes = search_axes(results.sweeps[0])
    words = {
        name for name in (*groups, *axes) if any(isinstance(value, str) for value in draws[name])
    }
    columns = (
        Column("trial", "trial", words=True),
        *(_setting(name, name in words) for name in groups),
        *(_setting(name, name in words) for name in axes if name not in groups),
        Column("wall_s", "s", "{:.1f}"),
        *(Column(name, _title(name), "{:.1f}", MIB) for name in measures_of(draws)),
        Column("outcome", "outcome", words=True),
    )
    rows: list[dict[str, Any]] = draws.to_dict("records")  # type: ignore[assignment]
    return StudyTable("trials", "Trials of the search; memory in MiB", columns, rows)


def _setting(name: str, words: bool) -> Column:
    if name == "background_bytes":
        return Column(name, "background MiB", "{:.0f}", MIB)
    return Column(name, name, "{:.4g}", words=words)


def _title(measure: str) -> str:
    """``own`` and ``system 5s``."""
    return measure.removesuffix("_bytes").replace("_", " ")


def _effect_tables(results: Results) -> list[StudyTable]:
    found = search_effects(results)
    groups = [effect.group for effect in found]
    # The settings in which the groups differ.
    named = [name for name in groups[0] if len({group[name] for group in groups}) > 1]
    tables = [_effects(found, named)]
    if said := list(learning_rate_checks(found)):
        rows = [
            {
                **asdict(v.effect),
                **_named(v.effect, named),
                "survives": "yes" if v.survives else "no",
            }
            for v in said
        ]
        columns = (
            Column("group", "draws of", words=True),
            Column("measure", "measure", words=True),
            Column("survives", "confirmed", words=True),
            Column("across", "MiB over its range", "{:+.1f}", MIB),
            Column("across_low", "from", "{:+.1f}", MIB),
            Column("across_high", "to", "{:+.1f}", MIB),
        )
        title = 'Mahendran\'s conclusion "small learning rates use more memory", checked'
        tables.append(StudyTable("verdict", title, columns, rows))
    moved = [asdict(one) for one in background_effects(draw_frame(results))]
    if moved:
        tables.append(_background(moved))
    return tables


def _effects(found: Sequence[SettingEffect], named: Sequence[str]) -> StudyTable:
    columns = (
        Column("group", "draws of", words=True),
        Column("measure", "measure", words=True),
        Column("setting", "setting", words=True),
        Column("size", "effect", "{:+.2f}"),
        Column("low", "from", "{:+.2f}"),
        Column("high", "to", "{:+.2f}"),
        Column("across", "MiB over its range", "{:+.1f}", MIB),
        Column("across_low", "from", "{:+.1f}", MIB),
        Column("across_high", "to", "{:+.1f}", MIB),
        Column("share", "variance explained", "{:.0%}"),
        Column("rank", "rank correlation", "{:+.2f}"),
        Column("shown", "interval excludes 0", words=True),
    )
    rows = [{**asdict(e), **_named(e, named), "shown": "yes" if e.shown else "no"} for e in found]
    draws = sorted({effect.draws for effect in found})
    says = (
        "effect: standard deviations of memory per standard deviation of the setting, the other "
        f"settings constant; 95 % intervals from {' or '.join(map(str, draws))} draws",
    )
    title = "Which settings matter for memory"
    return StudyTable("effects", title, columns, rows, says)


def _named(effect: SettingEffect, named: Sequence[str]) -> dict[str, str]:
    return {
        "group": _words({name: effect.group[name] for name in named}),
        "measure": _title(effect.measure),
        "setting": effect.setting,
    }


def _words(group: Mapping[str, Any]) -> str:
    told = dict(group)
    background = told.pop("background_bytes", None)
    words = [str(value) for value in told.values()]
    words += [] if background is None else [f"background {int(background) // MIB} MiB"]
    return ", ".join(words) or "all"


def _background(rows: list[dict[str, Any]]) -> StudyTable:
    columns = (
        Column("measure", "measure", words=True),
        Column("background_bytes", "background MiB", "{:.0f}", MIB),
        Column("draws", "draws", "{:g}"),
        Column("median_share", "median change", "{:.2%}"),
        Column("largest_share", "largest change", "{:.2%}"),
    )
    rows = [{**row, "measure": _title(row["measure"])} for row in rows]
    title = "How background memory changes each measure of the same draws"
    return StudyTable("background", title, columns, rows)
