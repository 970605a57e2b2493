"""Figures of sweeps of every shape: drawn, complete, repeatable, honest about what is missing."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import pytest
from made_sweep import Shape, make
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from edgebench.analysis.layer_costs import layer_cost_tables
from edgebench.errors import ResultsError
from edgebench.report.figures import by_limit, memory_time
from edgebench.report.figures.gallery import KINDS, STUDIES, draw_all
from edgebench.report.figures.layers import loading_figures, time_figures
from edgebench.report.figures.style import figure_style, limit_axis
from edgebench.results.results import Results, load
from edgebench.slowdown.curves import curves
from tests.own_path import python_path

MIB = 1 << 20
SMALL = Shape(networks={"lenet": 4}, limits=(None, 150, 100, 60), repeats=2, killed_below=80)
WIDE = Shape(
    networks={"alexnet": 12, "googlenet": 120},
    schedules=("linear", "bulk", "partial", "deepeye"),
    limits=(None, 180, 160, 140, 120, 100, 80, 60),
    pipeline=True,
    repeats=2,
    rounds=1,
    killed_below=70,
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return load(make(tmp_path_factory.mktemp("small"), SMALL))


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return load(make(tmp_path_factory.mktemp("wide"), WIDE))


@pytest.fixture(autouse=True)
def style() -> Iterator[None]:
    with figure_style():
        yield


def shown_texts(figure: Figure) -> list[tuple[str, Bbox]]:
    figure.draw_without_rendering()
    not_drawn = set()
    for axes in [part for panel in figure.axes for part in (panel, *panel.child_axes)]:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            slack = 1e-9 * (high - low)
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low - slack <= tick.get_loc() <= high + slack:
                    not_drawn |= {tick.label1, tick.label2}
    texts = [text for text in figure.findobj(Text) if text not in not_drawn]
    boxes = [(t.get_text(), t.get_window_extent()) for t in texts if t.get_visible()]
    return [(text, box) for text, box in boxes if text.strip() and box.width > 0]


def overlapping(figure: Figure) -> list[tuple[str, str]]:
    pairs = itertools.combinations(shown_texts(figure), 2)
    return [(one, two) for (one, a), (two, b) in pairs if a.padded(-1).overlaps(b.padded(-1))]


def outside(figure: Figure) -> list[str]:
    page = figure.bbox.padded(1)
    shown = shown_texts(figure)
    return [t for t, box in shown if not all(page.contains(*p) for p in (box.min, box.max))]


@pytest.mark.parametrize("kind", ["slowdown", "loading-execution", "layer-times", "memory-time"])
@pytest.mark.parametrize("sweep", ["small", pytest.param("wide", marks=pytest.mark.long)])
def test_texts_neither_overlap_nor_leave_the_page(kind: str, sweep: str, request):
    drawn = list({**KINDS, **STUDIES}[kind](request.getfixturevalue(sweep)))
    assert drawn
    for stem, figure in drawn[:2]:
        assert not overlapping(figure), stem
        assert not outside(figure), stem


def test_each_figure_says_where_it_is_from(small: Results):
    for kind, figures in KINDS.items():
        # No round of a made sweep has counts.
        for _, figure in figures(small) if kind != "misses" else ():
            words = " ".join(text.get_text() for text in figure.texts)
            assert "jetson-nano" in words, kind
            assert small.path.name in words
            assert "0123456789" in words


def test_the_slowdown_figure_has_all_its_parts(small: Results):
    (drawn,) = by_limit.slowdown_figures(small)
    panels = drawn.figure.axes
    assert [axes.get_title(loc="left") for axes in panels] == [
        "start (first round)",
        "steady round",
    ]
    axes = panels[1]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    (curve,) = [c for c in curves(small) if c.phase == "total"]
    (median,) = [line for line in axes.get_lines() if len(line.get_xdata()) == 3]
    assert list(median.get_xdata())[:2] == pytest.approx(curve.limits / MIB)
    assert list(median.get_ydata()) == pytest.approx([*curve.medians, 1.0])
    (crosses,) = [line for line in axes.get_lines() if line.get_marker() == "x"]
    assert list(crosses.get_xdata()) == [60.0]
    assert axes.bbox.padded(1).contains(*crosses.get_transform().transform((60, 0.97)))
    needs = [line for line in axes.get_lines() if list(line.get_xdata()) == [200.0, 200.0]]
    assert len(needs) == 1
    legend = panels[-1].get_legend()
    assert legend is not None
    words = [text.get_text() for text in legend.get_texts()]
    assert words == ["linear", "needs", "killed"]
    (seconds,) = axes.child_axes
    drawn.figure.draw_without_rendering()
    assert seconds.get_ylim() == pytest.approx([y * curve.unlimited_s for y in axes.get_ylim()])


def test_each_phase_has_a_panel_where_it_is_asked_for(small: Results):
    (drawn,) = by_limit.phase_figures(small)
    titles = [axes.get_title(loc="left") for axes in drawn.figure.axes]
    assert titles == ["loading", "first execution"]


def test_layer_times_are_the_tables(small: Results):
    (drawn,) = time_figures(small)
    (table,) = layer_cost_tables(small).tables
    load, execute = (axes.collections[0].get_array() for axes in drawn.figure.axes)
    assert load.shape == (4, 3)
    for layer, row in enumerate(table.layers):
        steps = [row.unlimited, row.at["150M"].steps, row.at["100M"].steps]
        assert list(load[layer]) == pytest.approx([max(s.load_s, 1e-4) for s in steps])
        assert list(execute[layer]) == pytest.approx([max(s.execute_s, 1e-4) for s in steps])
    assert "killed at 60 MiB" in drawn.figure.texts[1].get_text()


@pytest.mark.heavy
def test_figure_1_has_a_colour_a_limit(wide: Results):
    drawn = list(loading_figures(wide))
    assert len(drawn) == 4, "one a schedule"
    loading = drawn[0].figure.axes[0]
    lines = [line for line in loading.get_lines() if len(line.get_xdata())]
    assert len({line.get_color() for line in lines}) == 7
    with_weights = sum(1 for n in (12, 120) for layer in range(n) if layer % 5 != 4)
    assert len(loading.collections[0].get_offsets()) == 7 * with_weights


def test_memory_time_draws_the_unlimited_and_the_tightest_trial_or_the_named_one(small: Results):
    tightest, unlimited = (drawn.stem for drawn in memory_time.trial_figures(small))
    assert "100M" in tightest
    assert "max" in unlimited
    killed = small.trials.loc[small.trials["outcome"] == "oom-killed", "trial"].iloc[0]
    (drawn,) = memory_time.trial_figures(small, killed)
    labels = [line.get_label() for line in drawn.figure.axes[0].get_lines()]
    assert {"memory (sampled)", "swap (sampled)", "limit", "peak (kernel's)"} <= set(labels)
    with pytest.raises(ResultsError, match="no trial '9999': there are 0001 to"):
        list(memory_time.trial_figures(small, "9999"))


#: Draws a sweep where matplotlib is used for something else.
_CALLER = """
import sys, matplotlib as mpl
mpl.rcParams["font.size"] = 33
before = dict(mpl.rcParams)
from edgebench.results.results import load
from edgebench.report.figures.gallery import draw_all
draw_all(load(sys.argv[1]))
assert dict(mpl.rcParams) == before
import matplotlib.pyplot as plt
assert not plt.get_fignums()
"""


@pytest.mark.process
def test_the_same_data_give_the_same_bytes_and_the_callers_matplotlib_is_left_alone(tmp_path: Path):
    path = make(tmp_path, SMALL)
    first = {file.name: file.read_bytes() for file in draw_all(load(path)).paths}
    subprocess.run([sys.executable, "-c", _CALLER, str(path)], check=True)
    assert first == {name: (path / "figures" / name).read_bytes() for name in first}
    assert {name.rsplit(".", 1)[1] for name in first} == {"png", "svg"}
    assert mpl.rcParams["font.family"] == ["DejaVu Sans"]


@pytest.mark.process
def test_six_figures_unless_all_are_asked_for(tmp_path: Path):
    networks = dict.fromkeys(("lenet", "mlp", "alexnet", "vgg11"), 3)
    path = make(tmp_path, Shape(networks=networks, limits=(None, 100), repeats=1, rounds=2))
    first = {file.stem for file in draw_all(load(path)).paths}
    assert len(first) == 6
    assert sum(stem.startswith("slowdown") for stem in first) == 3
    every = {file.stem for file in draw_all(load(path), every=True).paths}
    assert first < every
    assert len({stem for stem in every if stem.startswith("phases")}) == 4
    assert len({stem for stem in every if stem.startswith("layer-times")}) == 4
    phases = {file.stem for file in draw_all(load(path), phases=True).paths}
    assert phases == {f"phases-{network}" for network in networks}


@pytest.mark.process
@pytest.mark.parametrize(
    ("shape", "drawn", "left_out"),
    [
        (
            Shape(limits=(None,), networks={"lenet": 4}),
            "layer-costs-lenet-linear.png",
            ["only unlimited", "no round"],
        ),
        (
            Shape(with_files=False, networks={"lenet": 4}),
            "slowdown-lenet.png",
            ["no layer", "no layer", "no round", "no samples"],
        ),
        (
            Shape(killed_below=1e9, limits=(150, 100), networks={"lenet": 4}),
            "memory-time-lenet-linear-150M-0001.png",
            ["no trial finished", "no unlimited", "no unlimited", "no round"],
        ),
    ],
)
def test_what_is_missing_is_said(tmp_path: Path, shape: Shape, drawn: str, left_out: list[str]):
    gallery = draw_all(load(make(tmp_path, shape)))
    assert drawn in [path.name for path in gallery.paths]
    assert len(gallery.left_out) == len(left_out)
    assert all(words in said for words, said in zip(left_out, gallery.left_out, strict=True))


@pytest.mark.parametrize("limits", [(100,), (100, 101), (1, 2, 65536)])
def test_any_range_of_limits_has_ticks(limits: tuple[float, ...]):
    axes = Figure().subplots()
    unlimited = limit_axis(axes, [limit * MIB for limit in limits])
    ticks = axes.get_xticks()
    assert len(ticks) >= 2
    assert ticks[-1] == unlimited > max(limits)
    assert axes.get_xlim()[0] < min(limits)


@pytest.mark.process
@pytest.mark.promise("Figures read no settings of matplotlib's in the current folder.")
def test_the_surroundings_of_matplotlib_hinder_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "matplotlibrc")
    code = "import os, edgebench.report.figures.style; print(os.environ['MPLBACKEND'], os.getcwd())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "MPLBACKEND": "nonsense", "PYTHONPATH": python_path()},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    assert done.stdout == f"nonsense {tmp_path}\n"
