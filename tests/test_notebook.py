"""What notebooks show: results, figures, and the example in docs/ executed anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_sweep import Shape, make

import edgebench
from edgebench.errors import UsageError
from edgebench.report.figures.gallery import draw

DOCS = Path(__file__).parents[1] / "docs" / "tutorial"
NOTEBOOK = DOCS / "notebook.ipynb"
SMALL = Shape(networks={"<b>net": 3}, limits=(None, 100), repeats=2, rounds=1)


def cells(notebook: Any) -> list[Any]:
    """A notebook's cells of code."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_results_show_themselves(tmp_path: Path):
    """A table of the points with their numbers; names stay words."""
    text = edgebench.load(make(tmp_path, SMALL))._repr_html_()
    assert "&lt;b&gt;net · linear" in text
    assert "<b>" not in text
    assert "<td>100M (100.0 MiB)</td><td>2 of 2</td>" in text


def test_damage_is_shown_with_the_results(tmp_path: Path):
    """A torn line is told below the table."""
    folder = make(tmp_path, SMALL)
    with (folder / "trials.jsonl").open("a") as file:
        file.write('{"trial": "00')
    assert "the last line is torn" in edgebench.load(folder)._repr_html_()


def test_figures_show_themselves(tmp_path: Path):
    """A figure drawn but not written is an SVG picture; an unknown kind is named."""
    results = edgebench.load(make(tmp_path, SMALL))
    (drawn,) = draw(results, "totals")
    assert drawn._repr_svg_().startswith("<?xml")
    assert not (results.path / "figures").exists()
    with pytest.raises(UsageError, match="no kind of figure 'nonsense'"):
        draw(results, "nonsense")


def test_the_example_was_executed():
    """docs/tutorial/notebook.ipynb holds what its cells gave, none of them an error."""
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    numbers = [cell.execution_count for cell in cells(notebook)]
    assert numbers == list(range(1, len(numbers) + 1))
    outputs = [output for cell in cells(notebook) for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert any("image/svg+xml" in output.get("data", {}) for output in outputs)


@pytest.mark.process
@pytest.mark.filterwarnings("default")
def test_the_example_still_works():
    """Executed anew on the kept results, each cell gives the kinds of output it gave before."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    before = nbformat.read(NOTEBOOK, as_version=4)
    after = nbformat.read(NOTEBOOK, as_version=4)
    folder = {"metadata": {"path": str(DOCS)}}
    nbclient.NotebookClient(after, timeout=200, resources=folder).execute()
    for old, new in zip(cells(before), cells(after), strict=True):
        kinds = [[sorted(o.get("data", {})) for o in cell.outputs] for cell in (old, new)]
        assert kinds[0] == kinds[1]
