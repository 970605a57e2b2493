"""All figures of a sweep, drawn and written.

Each module of this folder registers its kind of figure with ``@naming.figure_kind``; all are
imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from edgebench.errors import ResultsError
from edgebench.parallel import begun_in_parallel
from edgebench.report import figures as figures_package
from edgebench.report.figures import layer_costs, memory_time, naming, style

if TYPE_CHECKING:
    from edgebench.analysis.layer_costs.table import LayerCostTable, PassCost
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
#: The kinds that only the sweep of a study has data for.
STUDIES = {
    kind.name: kind.figures
    for kind in sorted(_ALL, key=lambda kind: kind.name)
    if kind.place is None
}
#: The kind for a random search, which has too many points for figures of each.
_SEARCH = "hyperparameters"
#: The kinds that take longest to draw.
_LONGEST = ("memory-time", "slowdown", "layer-times", "layer-costs", "loading-execution", "totals")
#: The kinds that draw what models and layers' times come to, which a report has in words too.
_OF_FITS_AND_COSTS = ("slowdown", "layer-costs")
_Made = TypeVar("_Made")


class WrittenFigures(NamedTuple):
    """The files written, and for each kind that could not be drawn the reason."""

    paths: list[Path]
    left_out: list[str]


@dataclass(frozen=True)
class DrawnKind(Generic[_Made]):
    """What was made of a kind's figures, or why there are none; and what is damaged."""

    made: list[_Made]
    reason: str | None
    warnings: list[str]


def draw_kinds(
    results: Results,
    kinds: Mapping[str, Callable[..., Any]],
    make: Callable[[naming.NamedFigure], _Made],
    meanwhile: Callable[[], object] | None = None,
) -> dict[str, DrawnKind[_Made]]:
    """What ``make`` returns of every figure of these kinds, in forked processes.

    ``meanwhile`` is called beside them; kinds that use what it finds are drawn after it, here. What
    is damaged in the results is added to their warnings.
    """

    def draw_kind(kind: str) -> DrawnKind[_Made]:
        before = results.warnings
        made: list[_Made] = []
        reason = None
        try:
            for one in naming.unique_stems(kinds[kind](results)):
                made.append(make(one))
        except ResultsError as error:
            reason = f"no {kind} figure: {error.what}"
        return DrawnKind(made, reason, [w for w in results.warnings if w not in before])

    if len(kinds) > 1:
        # Several kinds need it: read once, before the processes part.
        _ = results.layers
    here = [kind for kind in _OF_FITS_AND_COSTS if kind in kinds] if meanwhile else []
    # What takes longest is begun first.
    names = [kind for kind in dict.fromkeys((*_LONGEST, *kinds)) if kind in kinds.keys() - here]
    # One style for all kinds: to take one on takes longer than to see that a kind has no data.
    with style.figure_style(), begun_in_parallel(draw_kind, names) as others:
        if meanwhile:
            meanwhile()
        found = {kind: draw_kind(kind) for kind in here}
        found |= zip(names, others(), strict=True)
    for one in found.values():
        results.add_warnings(one.warnings)
    return {kind: found[kind] for kind in kinds}


def draw_all(results: Results) -> WrittenFigures:
    """Draw every kind of figure into the sweep's ``figures/``.

    A random search has too many points for figures of each; :func:`draw_trial` draws one's.

    Raises:
        ResultsError: none could be drawn, or the folder can't be written.
    """
    searched = results.resolved.get("scenario", {}).get("search")
    kinds = {_SEARCH: STUDIES[_SEARCH]} if searched else {**KINDS, **STUDIES}
    folder = results.path / "figures"
    drawn = draw_kinds(results, kinds, lambda one: style.save_figure(one.figure, folder, one.stem))
    paths = [path for kind in drawn.values() for written in kind.made for path in written]
    reasons = {kind: one.reason for kind, one in drawn.items() if one.reason}
    if not paths:
        raise ResultsError(
            "nothing to draw: " + "; ".join(reasons.values()),
            where=str(results.path),
            remedy=f"see what the trials did: edgebench show {results.path}",
        )
    return WrittenFigures(paths, [reason for kind, reason in reasons.items() if kind in KINDS])


def draw_trial(results: Results, trial: str) -> list[Path]:
    """Draw one trial's memory over time.

    Raises:
        ResultsError: no such trial, or it has no samples.
    """
    return naming.write_figures(memory_time.figures(results, trial), results.path)


def draw_layer_costs(
    results: Results, tables: Sequence[LayerCostTable], costs: Sequence[Sequence[PassCost]]
) -> list[Path]:
    """Draw what limits cost the layers of these tables, at these limits of each.

    Raises:
        ResultsError: the folder can't be written.
    """
    drawn = layer_costs.layer_cost_figures_at(results, tables, costs)
    return naming.write_figures(drawn, results.path)
