"""The draws of a random search over hyperparameters, and two measures of their memory.

Mahendran, "Analysis of memory consumption by neural networks based on hyperparameters", measured
the memory of the whole system every 5 s and concluded that small learning rates use more memory.
That measure is compared here with the trial's own memory.

Effects have intervals: each group (data set, network, background) gets one linear model of all
drawn settings, so that one setting's effect is not attributed to another. Intervals are valid with
unequal noise (HC3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from edgebench.analysis.studies.tables import Column, StudyTable, frame_rows
from edgebench.errors import ResultsError
from edgebench.text import MIB

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.results.results import Results, Sweep


#: Of every interval here.
LEVEL = 0.95
#: Draws beyond the model's parameters that it takes at least.
_LEAST_FREE = 2


@dataclass(frozen=True)
class SettingEffect:
    """What one setting does to one measure, all other settings held.

    Args:
        group: what the draws share: data set, network, background.
        measure: the column that was explained.
        setting: the column that explains.
        draws: points.
        size: standard deviations of the measure for one of the setting; ``low`` … ``high`` is its
            95 % interval.
        across: what the measure changes by from the setting's lowest drawn value to its highest,
            in the measure's unit; ``across_low`` … ``across_high`` likewise.
        share: part of the measure's variance that this setting alone explains, 0 … 1.
    """

    group: Mapping[str, Any]
    measure: str
    setting: str
    draws: int
    size: float
    low: float
    high: float
    across: float
    across_low: float
    across_high: float
    share: float

    @property
    def shown(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


def setting_effects(
    draws: pd.DataFrame,
    settings: Mapping[str, str],
    measures: Sequence[str],
    groups: Sequence[str] = (),
) -> Iterator[SettingEffect]:
    """Estimate the effect of each setting on each measure in each group.

    Args:
        draws: one row a draw: settings, measures and groups as columns.
        settings: column → ``linear`` or ``log``, the scale it was drawn on.
        measures: columns to explain; a row without a value is left out for that measure.
        groups: columns whose values are never mixed.

    Raises:
        ResultsError: a group has too few draws for so many settings.
    """
    keyed = draws.groupby(list(groups), dropna=False) if groups else [((), draws)]
    for values, rows in keyed:
        group = dict(zip(groups, tuple(values), strict=True))
        for measure in measures:
            yield from _group_effects(rows.dropna(subset=[measure]), settings, measure, group)


def _group_effects(
    rows: pd.DataFrame, settings: Mapping[str, str], measure: str, group: Mapping[str, Any]
) -> Iterator[SettingEffect]:
    from scipy import stats

    if rows.empty:
        return
    names = [name for name in settings if rows[name].nunique() > 1]
    needed = len(names) + 1 + _LEAST_FREE
    if len(rows) < needed:
        raise ResultsError(
            f"{len(rows)} draws are too few for {len(names)} settings; "
            f"needed: {needed} ({', '.join(f'{k} {v}' for k, v in group.items()) or 'one group'})",
            remedy="more draws = … under [search]",
        )
    drawn = {name: rows[name].to_numpy(dtype=float) for name in names}
    scaled = [np.log(v) if settings[name] == "log" else v for name, v in drawn.items()]
    columns = np.column_stack(scaled)
    observed = rows[measure].to_numpy(dtype=float)
    x, y = _standard(columns), _standard(observed[:, None])[:, 0]
    sizes, errors, explained = _least_squares(x, y)
    quantile = float(stats.t.ppf((1 + LEVEL) / 2, len(y) - len(names) - 1))
    spread = float(observed.std(ddof=1))
    for number, name in enumerate(names):
        # Over the drawn range, in the measure's own unit.
        reach = spread * float(np.ptp(x[:, number]))
        size, off = sizes[number], quantile * errors[number]
        low, high = size - off, size + off
        # What is explained less without this setting: its squared semi-partial correlation.
        share = max(0.0, explained - _least_squares(np.delete(x, number, axis=1), y)[2])
        yield SettingEffect(
            group, measure, name, len(rows), size, low, high,
            size * reach, low * reach, high * reach, share,
        )  # fmt: skip


def _standard(columns: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    spread = columns.std(0, ddof=1)
    standard: np.ndarray[Any, Any] = (columns - columns.mean(0)) / np.where(spread > 0, spread, 1.0)
    return standard


def _least_squares(
    x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]
) -> tuple[list[float], list[float], float]:
    """Fit ``y`` by the columns of ``x`` and a constant.

    Returns:
        Each column's coefficient, its standard error (HC3: valid with unequal noise), and the part
        of the variance that all of them explain.
    """
    design = np.column_stack([np.ones(len(y)), x])
    inverse = np.linalg.pinv(design)
    coefficients = inverse @ y
    residuals = y - design @ coefficients
    leverages = np.einsum("ij,ji->i", design, inverse)
    errors = np.sqrt(((inverse * (residuals / (1 - leverages))) ** 2).sum(axis=1))
    total = float(((y - y.mean()) ** 2).sum())
    explained = 1 - float((residuals**2).sum()) / total if total else 0.0
    return coefficients[1:].tolist(), errors[1:].tolist(), explained


#: The trial's own memory; the system's are ``system_<interval>s_bytes``.
OWN = "own_bytes"
SYSTEM_PREFIX = "system_"
#: Draws that differ in one of these are never mixed.
GROUPS = ("data", "network", "optimizer", "limit_label", "background_bytes")


def draw_frame(results: Results) -> pd.DataFrame:
    """Make one row per trial of the search: the drawn settings, and each measure in bytes.

    ``own_bytes`` is the trial's demand; ``system_5s_bytes`` the mean of the whole system's memory,
    read every 5 s while the trial ran, ``…_samples`` the number of readings.

    Raises:
        ResultsError: this sweep is not a random search.
    """
    import pandas as pd

    sweep = results.sweeps[0]
    axes, rows = search_axes(sweep), []
    for record in sweep.records:
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
        rows.append(row)
    frame = pd.DataFrame(rows)
    # A setting that a network doesn't have is None there.
    numbers = [name for name, scale in axes.items() if scale != "choice"]
    return frame.astype(dict.fromkeys([*numbers, *measures_of(frame)], "float64"))


def search_axes(sweep: Sweep) -> dict[str, str]:
    """Return each drawn setting → its scale; ``choice`` for one of several values.

    Raises:
        ResultsError: this sweep is not a random search.
    """
    search = sweep.resolved.get("scenario", {}).get("search")
    axes = search.get("axes") if isinstance(search, dict) else None
    if not isinstance(axes, dict):
        raise ResultsError("this sweep is not a random search", where=str(sweep.path))
    drawn = {name: axis for name, axis in axes.items() if isinstance(axis, dict)}
    return {name: str(axis.get("scale", "choice")) for name, axis in drawn.items()}


def measures_of(draws: pd.DataFrame) -> list[str]:
    """List the measures of memory, the trial's own first."""
    names = [str(name) for name in draws]
    system = [n for n in names if n.startswith(SYSTEM_PREFIX) and n.endswith("_bytes")]
    return [OWN, *system]


def search_effects(results: Results) -> list[SettingEffect]:
    """Estimate every drawn number's effect on every measure, per data set, network and background.

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
    effects = list(setting_effects(medians, scales, measures, keys))
    if not effects:
        raise ResultsError("no drawn setting is a number that varies", where=str(results.path))
    return effects


def background_effects(draws: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Compare each measure with background memory with the same draws without it.

    Draws are medians of their repeats; shares are of the measure without a background:
    ``median_share`` and ``largest_share`` of the ``draws``.
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
                yield {
                    "measure": _title(measure),
                    "background_bytes": size,
                    "draws": len(moved),
                    "median_share": float(moved.abs().median()),
                    "largest_share": float(moved.abs().max()),
                }


def search_tables(results: Results) -> list[StudyTable]:
    """Make the tables of trials, effects, the paper's conclusion, and background memory.

    Raises:
        ResultsError: this sweep is not a random search.
    """
    draws, axes = draw_frame(results), search_axes(results.sweeps[0])
    groups = [name for name in GROUPS if name in draws and draws[name].nunique() > 1]
    columns = [Column("trial", "trial", words=True)]
    for name in dict.fromkeys((*groups, *axes)):
        words = any(isinstance(value, str) for value in draws[name])
        if name == "background_bytes":
            columns.append(_BACKGROUND)
        else:
            columns.append(Column(name, name, "{:.4g}", words=words))
    columns.append(Column("wall_s", "s", "{:.1f}"))
    columns += (Column(name, _title(name), "{:.1f}", MIB) for name in measures_of(draws))
    columns.append(Column("outcome", "outcome", words=True))
    title, rows = "Trials of the search; memory in MiB", frame_rows(draws)
    trials = StudyTable("trials", title, tuple(columns), rows)
    try:
        effects = search_effects(results)
    except ResultsError as error:
        # The trials are shown even if they are too few for effects.
        return [replace(trials, says=(f"no effects: {error.what}",))]
    tables = [trials, *_effect_tables(effects)]
    if moved := list(background_effects(draws)):
        title = "How background memory changes each measure of the same draws"
        tables.append(StudyTable("background", title, _MOVED, moved))
    return tables


_BACKGROUND = Column("background_bytes", "background MiB", "{:.0f}", MIB)
_MOVED = (
    Column("measure", "measure", words=True),
    _BACKGROUND,
    Column("draws", "draws", "{:g}"),
    Column("median_share", "median change", "{:.2%}"),
    Column("largest_share", "largest change", "{:.2%}"),
)


def _title(measure: str) -> str:
    return measure.removesuffix("_bytes").replace("_", " ")


def _effect_tables(effects: Sequence[SettingEffect]) -> list[StudyTable]:
    # The settings in which the groups differ.
    groups = [effect.group for effect in effects]
    named = [name for name in groups[0] if len({group[name] for group in groups}) > 1]
    rows = []
    for effect in effects:
        about = {name: effect.group[name] for name in named}
        if (size := about.pop("background_bytes", None)) is not None:
            about["background_bytes"] = f"background {int(size) // MIB} MiB"
        named_row = {"group": ", ".join(map(str, about.values())) or "all"}
        named_row |= {"measure": _title(effect.measure), "shown": "yes" if effect.shown else "no"}
        rows.append({**asdict(effect), **named_row})
    where = (Column("group", "draws of", words=True), Column("measure", "measure", words=True))
    across = (
        Column("across", "MiB over its range", "{:+.1f}", MIB),
        Column("across_low", "from", "{:+.1f}", MIB),
        Column("across_high", "to", "{:+.1f}", MIB),
    )
    columns: tuple[Column, ...] = (
        *where,
        Column("setting", "setting", words=True),
        Column("size", "effect", "{:+.2f}"),
        Column("low", "from", "{:+.2f}"),
        Column("high", "to", "{:+.2f}"),
        *across,
        Column("share", "variance explained", "{:.0%}"),
        Column("shown", "interval excludes 0", words=True),
    )
    draws = sorted({effect.draws for effect in effects})
    says = (
        "effect: standard deviations of memory per standard deviation of the setting, the other "
        f"settings constant; 95 % intervals from {' or '.join(map(str, draws))} draws",
    )
    title = "Which settings matter for memory"
    tables = [StudyTable("effects", title, columns, rows, says)]
    # More memory where the rate is lower.
    checked = [
        {k: v for k, v in row.items() if k != "shown"}
        | {"survives": "yes" if row["high"] < 0 else "no"}
        for row in rows
        if row["setting"] == "learning_rate"
    ]
    if checked:
        columns = (*where, Column("survives", "confirmed", words=True), *across)
        title = 'Mahendran\'s conclusion "small learning rates use more memory", checked'
        tables.append(StudyTable("verdict", title, columns, checked))
    return tables
