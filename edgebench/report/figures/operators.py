"""Figure of time by operator over training steps: the slowest, split by phase."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgebench.analysis.studies.phases import operator_frame
from edgebench.report.figures import naming, style
from edgebench.results.derived import file_stem

if TYPE_CHECKING:
    from edgebench.results.results import Results

#: Training's phases, in a step's order; the colours of others follow.
_PHASES = ("data", "forward", "backward", "step")
_AUTOGRAD = "^autograd::engine::evaluate_function: "
_SHOWN = 12


@naming.figure_kind("operators")
def figures(results: Results) -> Iterator[naming.NamedFigure]:
    """Draw one figure for each trial that timed operators: families left, operators right.

    Raises:
        ResultsError: no trial of this sweep timed operators.
    """
    for trial, rows in operator_frame(results).groupby("trial", sort=True):
        first = rows.iloc[0]
        title = f"Time by operator: {first['network']}"
        words = (
            f"{first['steps']:g} steps of batch {first['batch']:g}, limit {first['limit_label']}; "
            "own time of each operator, by torch's profiler in a separate trial"
        )
        figure = style.new_figure(title, words, results, 4.6)
        panels = figure.subplots(1, 2)
        names = rows["operator"].str.replace(_AUTOGRAD, "autograd: ", regex=True)
        rows = rows.assign(operator=names.str.removeprefix("aten::"), ms=rows["own_s"] * 1e3)
        found = [*_PHASES, *sorted({*rows["phase"]} - {*_PHASES})]
        for axes, what in zip(panels, ("family", "operator"), strict=True):
            sums = rows.pivot_table("ms", what, "phase", "sum", fill_value=0)
            worst = sums.sum(axis=1).sort_values(ascending=False).index[:_SHOWN]
            bars = sums.reindex(worst[::-1], columns=[p for p in found if p in sums])
            colours = [style.PHASE_COLOURS.get(str(phase), "#9a9a9a") for phase in bars]
            bars.plot.barh(stacked=True, ax=axes, color=colours, width=0.75, legend=False)
            axes.set(xlabel="ms per step", ylabel="")
        style.legend_beside(*panels, title="phase")
        yield naming.NamedFigure(file_stem("operators", first["network"], trial), figure)
