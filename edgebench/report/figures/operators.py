"""Figure of time by operator over training steps: the slowest, split by phase."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
from matplotlib.patches import Patch

from edgebench.analysis.studies.operators import operator_frame
from edgebench.report.figures import naming, style
from edgebench.report.figures.palettes import COLOUR_BLIND
from edgebench.results.derived import file_stem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

#: Training's phases, in a step's order, each with its colour in every figure.
_PHASES = ("data", "forward", "backward", "step")
_COLOURS = dict(zip(_PHASES, COLOUR_BLIND, strict=False))
_OTHER_COLOUR = "#9a9a9a"
_AUTOGRAD = "^autograd::engine::evaluate_function: "
_SHOWN = 12


@naming.figure_kind("operators")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """One per trial that timed operators: families left, operators right.

    Raises:
        ResultsError: no trial of this sweep timed operators.
    """
    for trial, rows in operator_frame(results).groupby("trial", sort=True):
        first = rows.iloc[0]
        figure = style.new_figure(
            f"Time by operator: {first['network']}",
            f"{first['steps']:g} steps of batch {first['batch']:g}, limit {first['limit_label']}; "
            "own time of each operator, by torch's profiler in a separate trial",
            results,
            4.6,
        )
        left, right = figure.subplots(1, 2)
        _bars(left, rows, "family")
        _bars(right, rows, "operator")
        keys = [Patch(color=_colour(phase), label=phase) for phase in _phases(rows["phase"])]
        style.legend_beside(right, handles=keys, title="phase")
        yield naming.NamedFigure(file_stem("operators", first["network"], trial), figure)


def _bars(axes: Axes, rows: pd.DataFrame, what: str) -> None:
    """Milliseconds a step, the largest above."""
    sums: Any = rows.groupby([what, "phase"])["own_s"].sum().unstack(fill_value=0) * 1e3
    order = sums.sum(axis=1).sort_values(ascending=False).index[:_SHOWN]
    left = pd.Series(0.0, index=order)
    for phase in _phases(sums.columns):
        widths = sums.loc[order, phase]
        axes.barh(range(len(order)), widths, left=left, color=_colour(phase), height=0.75)
        left = left + widths
    names = [re.sub(_AUTOGRAD, "autograd: ", str(name)).removeprefix("aten::") for name in order]
    axes.set_yticks(range(len(order)), names)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(left=0)
    axes.set_xlabel("ms per step")


def _phases(found: Iterable[str]) -> list[str]:
    """A step's phases in their order, then any others."""
    names = set(found)
    return [*(phase for phase in _PHASES if phase in names), *sorted(names - set(_PHASES))]


def _colour(phase: str) -> Any:
    return _COLOURS.get(phase, _OTHER_COLOUR)
