"""Figure of training a part of a network: time, memory, gradients and accuracy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import seaborn as sns

from edgebench.analysis.studies.training import SHARED, partial_frame, start_label
from edgebench.errors import ResultsError
from edgebench.report.figures import naming, style
from edgebench.results.derived import file_stem
from edgebench.units import MIB

if TYPE_CHECKING:
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
    """Draw one figure for each network, data set, start and limit.

    Raises:
        ResultsError: no parts were trained, or no trial of them finished.
    """
    frame = partial_frame(results)
    done = frame[frame["outcome"] == "ok"]
    if done.empty:
        raise ResultsError("no trial of the parts finished", where=str(results.path))
    for number, (values, rows) in enumerate(done.groupby(list(SHARED), dropna=False, sort=True)):
        shared = dict(zip(SHARED, tuple(values), strict=True))
        words = (
            f"{shared['data']}, batch {shared['batch']:g}, {start_label(shared['start'])}, "
            f"limit {shared['limit_label']}: bars are medians, lines the range of trials"
        )
        height = 1.4 + 0.36 * max(rows["trained"].nunique(), 4)
        title = f"Training a part of {shared['network']}"
        figure = style.new_figure(title, words, results, height)
        known = {name: panel for name, panel in _PANELS.items() if rows[name].notna().any()}
        panels = figure.subplots(1, len(known), sharey=True, squeeze=False)[0]
        looks: dict[str, Any] = {"estimator": "median", "errorbar": ("pi", 100)}
        looks |= {"color": style.COLOURS[0], "saturation": 1, "err_kws": {"linewidth": 1.2}}
        for axes, (name, (label, unit)) in zip(panels, known.items(), strict=True):
            sns.barplot(
                rows.assign(value=rows[name] / unit), x="value", y="trained", ax=axes, **looks
            )
            axes.set(xlabel=label, ylabel="")
        stem = file_stem("partial", shared["network"], shared["data"], number)
        yield naming.NamedFigure(stem, figure)
