"""Effect sizes with intervals: which settings of a random search change memory.

Each group (data set, network, background) gets one linear model of all drawn settings, so that one
setting's effect is not attributed to another. Intervals are valid with unequal noise (HC3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from edgebench.errors import ResultsError

if TYPE_CHECKING:
    import pandas as pd

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
        draws: so many points.
        size: standard deviations of the measure for one of the setting; ``low`` … ``high`` is its
            95 % interval.
        across: what the measure changes by from the setting's lowest drawn value to its highest,
            in the measure's unit; ``across_low`` … ``across_high`` likewise.
        share: part of the measure's variance that this setting alone explains, 0 … 1.
        rank: Spearman's rank correlation of the two alone, what one sees in a plot of them;
            ``rank_low`` … ``rank_high`` by bootstrap.
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
    rank: float
    rank_low: float
    rank_high: float

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
    """The effect of each setting on each measure in each group.

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
            yield from _effects(rows.dropna(subset=[measure]), settings, measure, group)


def _effects(
    rows: pd.DataFrame, settings: Mapping[str, str], measure: str, group: Mapping[str, Any]
) -> Iterator[SettingEffect]:
    import statsmodels.api as sm

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
    fit = sm.OLS(y, sm.add_constant(x)).fit(cov_type="HC3", use_t=True)
    ends = fit.conf_int(1 - LEVEL)
    spread = float(observed.std(ddof=1))
    for number, name in enumerate(names):
        # Over the drawn range, in the measure's own unit.
        reach = spread * float(np.ptp(x[:, number]))
        size, (low, high) = float(fit.params[number + 1]), ends[number + 1]
        rank = _rank(columns[:, number], observed)
        share = _share(x, y, number, float(fit.rsquared))
        yield SettingEffect(
            group, measure, name, len(rows), size, float(low), float(high),
            size * reach, float(low) * reach, float(high) * reach, share, *rank,
        )  # fmt: skip


def _standard(columns: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    spread = columns.std(0, ddof=1)
    made: np.ndarray[Any, Any] = (columns - columns.mean(0)) / np.where(spread > 0, spread, 1.0)
    return made


def _share(
    x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], number: int, explained: float
) -> float:
    """What is explained less without this setting (its squared semi-partial correlation)."""
    import statsmodels.api as sm

    without = np.delete(x, number, axis=1)
    return max(0.0, explained - float(sm.OLS(y, sm.add_constant(without)).fit().rsquared))


def _rank(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> tuple[float, float, float]:
    from scipy import stats

    found = stats.bootstrap(
        (x, y),
        _rank_correlation,
        paired=True,
        n_resamples=999,
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(_rank_correlation(x, y)), float(found.low), float(found.high)


def _rank_correlation(
    x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], axis: int = -1
) -> np.ndarray[Any, Any]:
    """Spearman's, of many resamples at once; 0 where one value was drawn again and again."""
    from scipy import stats

    ranks = [stats.rankdata(values, axis=axis) for values in (x, y)]
    a, b = (rank - rank.mean(axis=axis, keepdims=True) for rank in ranks)
    size = np.sqrt((a**2).sum(axis=axis) * (b**2).sum(axis=axis))
    made: np.ndarray[Any, Any] = (a * b).sum(axis=axis) / np.where(size > 0, size, 1.0)
    return made
