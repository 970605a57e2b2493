"""All figures of a sweep, drawn and written; what can't be drawn is said and left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from edgebench.errors import ResultsError, UsageError
from edgebench.figures import (
    convolution,
    cores,
    hyperparameters,
    layer_blame,
    layer_times,
    loading_execution,
    memory_time,
    operators,
    partial,
    reconciliation,
    slowdown,
    totals,
    training,
    training_mark,
    training_memory,
)
from edgebench.figures.naming import Drawn
from edgebench.figures.style import applied, save

if TYPE_CHECKING:
    from edgebench.blame.table import BlameTable, PassCost
    from edgebench.results.results import Results

FOLDER = "figures"
#: Each kind of figure and what draws it.
KINDS: dict[str, Callable[[Results], Iterator[Drawn]]] = {
    "slowdown": slowdown.figures,
    "totals": totals.figures,
    "loading-execution": loading_execution.figures,
    "layer-times": layer_times.figures,
    "layer-blame": layer_blame.figures,
    "memory-time": memory_time.figures,
    "reconciliation": reconciliation.figures,
}
#: What only a study's sweep has anything for: no other sweep lacks it.
STUDIES: dict[str, Callable[[Results], Iterator[Drawn]]] = {
    "convolution": convolution.figures,
    "cores": cores.figures,
    "hyperparameters": hyperparameters.figures,
    "operators": operators.figures,
    "partial": partial.figures,
    "training-mark": training_mark.figures,
    "training-memory": training_memory.figures,
    "training": training.figures,
}
#: The one that a random search has: its points are too many for figures of each.
_SEARCH = "hyperparameters"


class Gallery(NamedTuple):
    """The files written, and for each kind that could not be drawn the reason."""

    paths: list[Path]
    left_out: list[str]


def draw_all(results: Results) -> Gallery:
    """Draw every kind of figure into the sweep's ``figures/``.

    A random search has too many points for figures of each; :func:`draw_trial` draws one's.

    Raises:
        ResultsError: none could be drawn, or the folder can't be written.
    """
    paths: list[Path] = []
    reasons: dict[str, str] = {}
    searched = (results.resolved.get("scenario") or {}).get("search")
    kinds = {_SEARCH: STUDIES[_SEARCH]} if searched else {**KINDS, **STUDIES}
    for kind, figures in kinds.items():
        try:
            paths += _write(results, figures(results))
        except ResultsError as error:
            reasons[kind] = f"no {kind} figure: {error.what}"
    if not paths:
        raise ResultsError(
            "nothing to draw: " + "; ".join(reasons.values()),
            where=str(results.path),
            remedy=f"see what the trials did: edgebench show {results.path}",
        )
    return Gallery(paths, [said for kind, said in reasons.items() if kind in KINDS])


def draw(results: Results, kind: str) -> list[Drawn]:
    """The figures of one of :data:`KINDS`, drawn but not written, as for a notebook.

    Raises:
        UsageError: no such kind.
        ResultsError: the results have nothing for it.
    """
    kinds = {**KINDS, **STUDIES}
    if kind not in kinds:
        raise UsageError(f"no kind of figure {kind!r}", remedy=f"one of {', '.join(kinds)}")
    with applied():
        return list(kinds[kind](results))


def draw_trial(results: Results, trial: str) -> list[Path]:
    """Draw one trial's memory over time.

    Raises:
        ResultsError: no such trial, or it has no samples.
    """
    return _write(results, memory_time.figures(results, trial))


def draw_blame(
    results: Results, tables: Sequence[BlameTable], costs: Sequence[Sequence[PassCost]]
) -> list[Path]:
    """Draw who is to blame in these tables, at these limits of each.

    Raises:
        ResultsError: the folder can't be written.
    """
    return _write(results, layer_blame.drawn(results, tables, costs))


def _write(results: Results, drawn: Iterator[Drawn]) -> list[Path]:
    folder, paths = results.path / FOLDER, []
    with applied():
        for stem, figure in drawn:
            paths += save(figure, folder, stem)
    return paths
