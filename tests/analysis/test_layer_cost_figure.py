"""The figure of layer costs: the lengths of its bars and its names."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from layer_cost_results import LIMITED, Made, make
from matplotlib.figure import Figure

from edgebench.report.figures import layer_costs, naming
from edgebench.report.figures.layout import DPI, lay_out
from edgebench.report.figures.style import figure_style
from edgebench.results.results import load


def figure_of(path: Path) -> Figure:
    """The one figure of a sweep."""
    (drawn,) = layer_costs.figures(load(path))
    return drawn.figure


def rows_of(figure: Figure) -> list[str]:
    """The names of its rows, from the top."""
    return [label.get_text() for label in figure.axes[0].get_yticklabels()]


def lengths(figure: Figure, panel: int) -> list[float]:
    """The lengths of a panel's bars: all unlimited ones, then all limited ones."""
    return [bar.get_width() for bar in figure.axes[panel].patches]


def test_bars_are_the_tables_numbers(tmp_path: Path):
    """Worst on top; loading and executing apart, on one scale; shares of the extra time beside."""
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


def test_the_rest_is_summed(tmp_path: Path):
    """Layers that tell nothing are one row, whose bars are their sum."""
    path = make(tmp_path, [Made(), Made("100M", [LIMITED])] * 2, networks=("a", "b", "c"))
    figure = figure_of(path)
    assert rows_of(figure)[-2:] == ["3 other layers", "between layers"]
    assert sum(lengths(figure, 2)) == pytest.approx(1)
    assert rows_of(figure)[0] == "a fc (Linear, 100 MiB)"


def test_without_a_limit_there_is_no_extra_time(tmp_path: Path):
    """Times alone, in two panels, the longest on top."""
    figure = figure_of(make(tmp_path, [Made()]))
    assert len(figure.axes) == 2
    assert rows_of(figure)[0].startswith("fc")
    assert "Time of duo by layer" in " ".join(text.get_text() for text in figure.texts)


def test_what_repeats_hide_is_said(tmp_path: Path):
    """A limit that costs no more than repeats differ doesn't pass for a cost."""
    figure = figure_of(make(tmp_path, [Made(), Made(rounds=[LIMITED]), Made("100M", [LIMITED])]))
    assert "unclear: repeats differ by more" in " ".join(text.get_text() for text in figure.texts)


LONG = "jax2tf_get_logits_/pjit_get_logits_/MagikaV2/LayerNorm_0"


@pytest.mark.filterwarnings("error")
def test_long_names_leave_the_bars_room(tmp_path: Path):
    """Nothing is cut off or drawn over, and no library warns: names are cut at their beginning."""
    networks = tuple(f"{LONG}/{word * 12}" for word in ("Conv", "Dense"))
    path = make(tmp_path, [Made(), Made("100M", [LIMITED])] * 2, networks=networks)
    with figure_style():
        figure = figure_of(path)
        lay_out(figure)
        figure.dpi = DPI
        names, bars, shares = figure.axes
        boxes = [label.get_window_extent() for label in names.get_yticklabels()]
        assert min(box.x0 for box in boxes) >= 0
        assert max(box.x1 for box in boxes) <= names.get_window_extent().x0
        legend = shares.get_legend()
        assert legend is not None
        told = [text.get_window_extent() for text in shares.texts]
        assert not any(legend.get_window_extent().overlaps(box) for box in told)
        ticks = [label.get_window_extent() for label in bars.get_xticklabels()]
        assert not any(one.overlaps(other) for one, other in itertools.pairwise(ticks))


def test_names_are_told_by_their_end():
    """What all share is left out; two names that would be equal keep their number."""
    names = [f"{LONG}/{end}" for end in ("Mul", "AddV2", "x" * 40 + "y" * 30, "z" + "y" * 30)]
    assert naming.brief_labels(names, 24) == ["Mul", "AddV2", f"2 …{'y' * 21}", f"3 …{'y' * 21}"]
    assert naming.brief_labels(["conv1", "conv2"], 24) == ["conv1", "conv2"]
    assert naming.brief_labels(["only/one"], 24) == ["only/one"]
