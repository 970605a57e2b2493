"""The figure of layer costs: the lengths of its bars and its names."""

from __future__ import annotations

from pathlib import Path

import pytest
from layer_cost_results import LIMITED, Made, make
from matplotlib.figure import Figure

from edgebench.report.figures import layer_costs
from edgebench.results.results import load


def figure_of(path: Path) -> Figure:
    (drawn,) = layer_costs.figures(load(path))
    return drawn.figure


def rows_of(figure: Figure) -> list[str]:
    return [label.get_text() for label in figure.axes[0].get_yticklabels()]


def lengths(figure: Figure, panel: int) -> list[float]:
    return [bar.get_width() for bars in figure.axes[panel].containers for bar in bars]


def test_bars_are_the_tables_numbers(tmp_path: Path):
    figure = figure_of(make(tmp_path, [Made(), Made("100M", [LIMITED])] * 2))
    assert rows_of(figure) == [
        *("fc (Linear, 100 MiB)", "conv (Conv2d, 4 MiB)"),
        "act (ReLU)",
        "between layers",
    ]
    assert lengths(figure, 0) == pytest.approx([0.3, 0.1, 0, 0, 0.5, 0.2, 0, 0])
    assert lengths(figure, 1) == pytest.approx([0.3, 0.3, 0.03, 0.12, 1.5, 0.3, 0.03, 0.16])
    assert lengths(figure, 2) == pytest.approx([1.4 / 1.54, 0.1 / 1.54, 0, 0.04 / 1.54])
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()
    assert figure.axes[0].get_xlim()[1] > 1.5


def test_without_a_limit_there_is_no_extra_time(tmp_path: Path):
    figure = figure_of(make(tmp_path, [Made()]))
    assert len(figure.axes) == 2
    assert rows_of(figure)[0].startswith("fc")
    assert "Time of duo by layer" in " ".join(text.get_text() for text in figure.texts)
