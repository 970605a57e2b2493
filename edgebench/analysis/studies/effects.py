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
        rank = _rank(columns[:, number], observed)
        # What is explained less without this setting: its squared semi-partial correlation.
        share = max(0.0, explained - _least_squares(np.delete(x, number, axis=1), y)[2])
        yield SettingEffect(
            group, measure, name, len(rows), size, low, high,
            size * reach, low * reach, high * reach, share, *rank,
        )  # fmt: skip


def _standard(columns: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    spread = columns.std(0, ddof=1)
    made: np.ndarray[Any, Any] = (columns - columns.mean(0)) / np.where(spread > 0, spread, 1.0)
    return made


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
