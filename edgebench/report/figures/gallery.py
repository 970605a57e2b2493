"""All figures of a sweep, drawn and written.

Each module of this folder registers its kind of figure with ``@naming.figure_kind``; all are
imported here.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, NamedTuple

from edgebench.errors import ResultsError
from edgebench.report import figures as figures_package
from edgebench.report.figures import naming

if TYPE_CHECKING:
    from edgebench.results.results import Results

for _module in iter_modules(figures_package.__path__, f"{figures_package.__name__}."):
    import_module(_module.name)

_ALL = naming.REGISTERED.values()
#: The kinds of figure that every sweep has, and what draws each, in the order of a report.
KINDS = {
    kind.name: kind.figures
    for kind in sorted(_ALL, key=lambda kind: kind.place or 0)
    if kind.place is not None
}
#: The kinds that not every sweep has data for, and those that few ask for.
STUDIES = {
    kind.name: kind.figures
    for kind in sorted(_ALL, key=lambda kind: kind.name)
    if kind.place is None
}
#: The kinds that only ``--all`` draws; the first also ``--phases``.
_PHASES, _ONLY_ALL = "phases", ("phases", "loading-execution")
#: The kinds of which ``--all`` alone draws more than the first.
_FIRST_ALONE = ("layer-costs", "layer-times", "misses", "memory-time")
#: The kind for a random search, which has too many points for figures of each.
_SEARCH = "hyperparameters"
#: Without ``--all``, a sweep has no more figures.
_MOST = 6


class WrittenFigures(NamedTuple):
    """The files written, and for each kind that could not be drawn the reason."""

    paths: list[Path]
    left_out: list[str]


def draw_figures(
    results: Results, left_out: list[str], *, every: bool = False, phases: bool = False
) -> Iterator[naming.NamedFigure]:
    """Draw a sweep's figures, at most six: the first of each kind, then the second of some.

    Args:
        results: one sweep.
        left_out: takes for each kind of every sweep without a figure the reason.
        every: draw all of them.
        phases: draw slowdown by phase instead of by round.
    """
    kinds = {**STUDIES, **KINDS}
    if phases:
        kinds = {_PHASES: STUDIES[_PHASES]}
    elif not every:
        kinds = {kind: draw for kind, draw in kinds.items() if kind not in _ONLY_ALL}
    if results.resolved.get("scenario", {}).get("search"):
        kinds = {_SEARCH: STUDIES[_SEARCH]}
    pending = {kind: draw(results) for kind, draw in kinds.items()}
    drawn = 0
    while pending:
        for kind, figures in list(pending.items()):
            if drawn == _MOST and not every:
                return
            try:
                yield next(figures)
                drawn += 1
                if kind in _FIRST_ALONE and not every:
                    del pending[kind]
            except StopIteration:
                del pending[kind]
            except ResultsError as error:
                del pending[kind]
                if kind in KINDS or len(kinds) == 1:
                    left_out.append(f"no {kind} figure: {error.what}")


def draw_all(results: Results, *, every: bool = False, phases: bool = False) -> WrittenFigures:
    """Write figures into the sweep's ``figures/``: see :func:`draw_figures`.

    Raises:
        ResultsError: none could be drawn, or the folder can't be written.
    """
    left_out: list[str] = []
    drawn = draw_figures(results, left_out, every=every, phases=phases)
    paths = naming.write_figures(drawn, results.path)
    if not paths:
        raise ResultsError(
            "nothing to draw: " + "; ".join(left_out),
            where=str(results.path),
            remedy=f"see what the trials did: edgebench show {results.path}",
        )
    return WrittenFigures(paths, left_out)


def draw_trial(results: Results, trial: str) -> list[Path]:
    """Draw one trial's memory over time.

    Raises:
        ResultsError: no such trial, or it has no samples.
    """
    return naming.write_figures(KINDS["memory-time"](results, trial), results.path)
