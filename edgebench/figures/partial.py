"""What training a part of a network takes: time, memory, gradients and accuracy, beside all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from edgebench.errors import ResultsError
from edgebench.figures.axes import MIB
from edgebench.figures.naming import Drawn
from edgebench.figures.style import PHASE_COLOURS, new_figure
from edgebench.results.derived import file_stem
from edgebench.studies.partial import SHARED, WHOLE, partial_frame, start_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

#: Column → the panel's label and its unit.
_PANELS = {
    "step_s": ("time a step (ms)", 1e-3),
    "own_bytes": ("memory above the base (MiB)", MIB),
    "gradient_bytes": ("gradients (MiB)", MIB),
    "accuracy": ("test accuracy (%)", 0.01),
}


def figures(results: Results) -> Iterator[Drawn]:
    """One for each network, data set, start and limit.

    Raises:
        ResultsError: no parts were trained, or no trial of them finished.
    """
    frame = partial_frame(results)
    done = frame[frame["outcome"] == "ok"]
    if done.empty:
        raise ResultsError("no trial of the parts finished", where=str(results.path))
    for number, (values, rows) in enumerate(done.groupby(list(SHARED), dropna=False, sort=True)):
        told = dict(zip(SHARED, tuple(values), strict=True))
        stem = file_stem("partial", told["network"], told["data"], number)
        yield Drawn(stem, _figure(results, rows, told))


def _figure(results: Results, rows: pd.DataFrame, told: Mapping[str, Any]) -> Any:
    parts = list(dict.fromkeys(rows["trained"]))
    panels = {name: how for name, how in _PANELS.items() if rows[name].notna().any()}
    figure = new_figure(
        f"Training a part of {told['network']}",
        f"{told['data']}, batch {told['batch']:g}, {start_of(told['start'])}, "
        f"limit {told['limit_label']}: bars are medians, marks are trials",
        results,
        1.4 + 0.36 * max(len(parts), 4),
    )
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (name, (label, unit)) in zip(row, panels.items(), strict=True):
        _bars(axes, rows, parts, name, unit)
        axes.set_xlabel(label)
    row[0].invert_yaxis()
    return figure


def _bars(axes: Axes, rows: pd.DataFrame, parts: Sequence[str], name: str, unit: float) -> None:
    medians = rows.groupby("trained")[name].median() / unit
    axes.barh(
        range(len(parts)), medians[list(parts)], color=PHASE_COLOURS["load"], alpha=0.75, height=0.7
    )
    for height, part in enumerate(parts):
        own = rows.loc[rows["trained"] == part, name] / unit
        axes.plot(own, [height] * len(own), "o", color="black", ms=2.5, alpha=0.6)
    if WHOLE in parts:
        axes.axvline(medians[WHOLE], color="grey", lw=1, ls=(0, (5, 3)))
    axes.set_yticks(range(len(parts)), parts)
    axes.grid(visible=False, axis="y")
