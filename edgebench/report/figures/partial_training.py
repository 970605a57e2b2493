"""Figure of training a part of a network: time, memory, gradients and accuracy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from edgebench.analysis.studies.partial_training import SHARED, WHOLE, partial_frame, start_label
from edgebench.errors import ResultsError
from edgebench.report.figures import naming, style
from edgebench.results.derived import file_stem
from edgebench.units import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

#: Column → the panel's label and its unit.
_PANELS = {
    "step_s": ("time per step (ms)", 1e-3),
    "own_bytes": ("memory above base (MiB)", MIB),
    "gradient_bytes": ("gradients (MiB)", MIB),
    "accuracy": ("test accuracy (%)", 0.01),
}


@naming.figure_kind("partial")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """One for each network, data set, start and limit.

    Raises:
        ResultsError: no parts were trained, or no trial of them finished.
    """
    frame = partial_frame(results)
    done = frame[frame["outcome"] == "ok"]
    if done.empty:
        raise ResultsError("no trial of the parts finished", where=str(results.path))
    for number, (values, rows) in enumerate(done.groupby(list(SHARED), dropna=False, sort=True)):
        shared = dict(zip(SHARED, tuple(values), strict=True))
        stem = file_stem("partial", shared["network"], shared["data"], number)
        yield naming.NamedFigure(stem, _figure(results, rows, shared))


def _figure(results: Results, rows: pd.DataFrame, shared: Mapping[str, Any]) -> Any:
    parts = list(dict.fromkeys(rows["trained"]))
    panels = {name: how for name, how in _PANELS.items() if rows[name].notna().any()}
    figure = style.new_figure(
        f"Training a part of {shared['network']}",
        f"{shared['data']}, batch {shared['batch']:g}, {start_label(shared['start'])}, "
        f"limit {shared['limit_label']}: bars are medians, marks are trials",
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
        range(len(parts)),
        medians[list(parts)],
        color=style.PHASE_COLOURS["load"],
        alpha=0.75,
        height=0.7,
    )
    for height, part in enumerate(parts):
        own = rows.loc[rows["trained"] == part, name] / unit
        axes.plot(own, [height] * len(own), "o", color="black", ms=2.5, alpha=0.6)
    if WHOLE in parts:
        axes.axvline(medians[WHOLE], color="grey", lw=1, ls=(0, (5, 3)))
    axes.set_yticks(range(len(parts)), parts)
    axes.grid(visible=False, axis="y")
