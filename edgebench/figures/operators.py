"""Time by operator over training steps: bars of the largest, split by phase."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
import seaborn as sns
from matplotlib.patches import Patch

from edgebench.figures.naming import Drawn
from edgebench.figures.style import legend_beside, new_figure
from edgebench.results.derived import file_stem
from edgebench.studies.operators import operator_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from edgebench.results.results import Results

#: Training's phases, in a step's order, each with its colour in every figure.
_PHASES = ("data", "forward", "backward", "step")
_COLOURS = dict(zip(_PHASES, sns.color_palette("colorblind"), strict=False))
_OTHER_COLOUR = "#9a9a9a"
_AUTOGRAD = "autograd::engine::evaluate_function: "
_SHOWN = 12


def figures(results: Results) -> Iterator[Drawn]:
    """One for each trial that was looked at: families left, operators right.

    Raises:
        ResultsError: no trial of this sweep was looked at by operator.
    """
    for trial, rows in operator_frame(results).groupby("trial", sort=True):
        first = rows.iloc[0]
        figure = new_figure(
            f"Time by operator: {first['network']}",
            f"{first['steps']:g} steps of batch {first['batch']:g}, limit {first['limit_label']}; "
            "each operator's own time, by torch's profiler in a trial of its own",
            results,
            4.6,
        )
        left, right = figure.subplots(1, 2)
        _bars(left, rows, "family")
        _bars(right, rows, "operator")
        keys = [Patch(color=_colour(phase), label=phase) for phase in _phases(rows["phase"])]
        legend_beside(right, handles=keys, title="phase")
        yield Drawn(file_stem("operators", first["network"], trial), figure)


def _bars(axes: Axes, rows: pd.DataFrame, what: str) -> None:
    """Milliseconds a step, the largest above."""
    sums: Any = rows.groupby([what, "phase"])["own_s"].sum().unstack(fill_value=0) * 1e3
    order = sums.sum(axis=1).sort_values(ascending=False).index[:_SHOWN]
    left = pd.Series(0.0, index=order)
    for phase in _phases(sums.columns):
        widths = sums.loc[order, phase]
        axes.barh(range(len(order)), widths, left=left, color=_colour(phase), height=0.75)
        left = left + widths
    axes.set_yticks(range(len(order)), [_short(str(name)) for name in order])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(left=0)
    axes.set_xlabel("ms a step")


def _phases(found: Iterable[str]) -> list[str]:
    """A step's phases in their order, then any others."""
    names = set(found)
    return [*(phase for phase in _PHASES if phase in names), *sorted(names - set(_PHASES))]


def _colour(phase: str) -> Any:
    return _COLOURS.get(phase, _OTHER_COLOUR)


def _short(operator: str) -> str:
    """Without where torch keeps it; autograd's own work is told as such."""
    if operator.startswith(_AUTOGRAD):
        return f"autograd: {operator.removeprefix(_AUTOGRAD)}"
    return operator.removeprefix("aten::")
