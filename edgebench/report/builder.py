"""Makes the report of one sweep from its results; what is missing is named with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from msgspec import structs

from edgebench.errors import ResultsError
from edgebench.records import Doubt
from edgebench.report.answers import all_answers
from edgebench.report.content import Chapter, Report, ReportTable
from edgebench.report.pictures import draw_pictures
from edgebench.report.remedies import remedies_table
from edgebench.report.tables import (
    environment_table,
    fits_table,
    layers_table,
    limits_table,
    summary_table,
    unfinished_table,
    worst_layer,
)
from edgebench.results.advice_file import kept_advice
from edgebench.results.facts import WorkloadFacts, workload_facts
from edgebench.results.point_facts import point_facts
from edgebench.results.workload_key import brief_names
from edgebench.text import printable
from edgebench.words.advice import kept_advice_sentence
from edgebench.words.doubts import collection_notes, doubt_sentences
from edgebench.words.fits import holder_sentences
from edgebench.words.in_short import sweep_sentences
from edgebench.words.kills import watching_warnings
from edgebench.words.labels import limit_label
from edgebench.words.more_memory import largest_saving
from edgebench.words.report import (
    capped_warnings,
    footer_sentence,
    no_fit_words,
    no_layers_words,
    state_sentences,
    sweep_title,
)
from edgebench.words.unmeasured import unmeasured_notes

if TYPE_CHECKING:
    from edgebench.analysis.layer_costs.table import LayerCostTable
    from edgebench.results.results import Results
    from edgebench.slowdown.models.fitting import CurveFits

#: With more workloads than this, only those with limits have a chapter; the summary has all.
_MANY = 12


@dataclass(frozen=True)
class _Found:
    """What the frames of the sweep hold beside its points. ``warnings``: what they lack."""

    layer_costs: list[LayerCostTable] = field(default_factory=list)
    fits: list[CurveFits] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def make_report(results: Results, *, pngs: bool = False) -> Report:
    """The report of one sweep, complete, running or interrupted; ``pngs``: figures also as PNG.

    Raises:
        ResultsError: these are several sweeps.
        MachineError: pandas is not installed.
    """
    sweep = results.sweeps[0]
    summaries = point_facts(sweep)
    points = workload_facts(summaries)
    collected = [*unmeasured_notes(summaries), *collection_notes(summaries)]
    found = _Found()
    # What needs no figure is found while others are drawn.
    pictures, no_picture = draw_pictures(results, pngs, lambda: _find(results, found))
    advice = kept_advice(sweep.path)
    advised = [[kept_advice_sentence(advice)]] if advice else []
    tables = [remedies_table(advice)] if advice else []
    fits = fits_table(found.fits)
    tables += [fits] if fits.rows else []
    unfinished = unfinished_table(points)
    tables += [unfinished] if unfinished.rows else []
    brief = brief_names(one.name for one in points)
    warnings = [*watching_warnings(sweep), *results.warnings, *found.warnings, *collected]
    costs = {one.name: table for one in points if (table := _table_of(one, found.layer_costs))}
    worst = {one.name: worst_layer(t, one) for one in points if (t := costs.get(one.name))}
    return Report(
        title=sweep_title(sweep),
        about=state_sentences(sweep),
        in_short=[*advised, *_in_short(points, costs, sweep.networks)],
        summary=summary_table(points, worst),
        chapters=_noted_once(
            _chapter(one, brief[one.name], costs.get(one.name), found.fits, sweep.networks)
            # Of many workloads only those with a limit that was tried get a chapter.
            for one in points
            if one.tried or len(points) <= _MANY
        ),
        pictures=pictures,
        warnings=capped_warnings(
            [*dict.fromkeys(warnings), *doubt_sentences(_doubts(points, brief))]
        ),
        tables=[*tables, environment_table(sweep.environment)],
        scenario=printable(sweep.scenario_text),
        footer=footer_sentence(sweep),
        left_out=no_picture,
    )


def _find(results: Results, found: _Found) -> None:
    from edgebench.analysis.layer_costs.builder import layer_cost_tables
    from edgebench.slowdown.curves import curves
    from edgebench.slowdown.models.fitting import fit_all

    try:
        tables, left_out = layer_cost_tables(results)
        found.layer_costs.extend(tables)
        found.warnings.extend(left_out)
    except ResultsError as error:
        found.warnings.append(no_layers_words(error))
    try:
        fits, skipped = fit_all(curves(results))
        found.fits.extend(fits)
        found.warnings.extend(skipped)
    except ResultsError as error:
        found.warnings.append(no_fit_words(error))


def _in_short(
    points: Sequence[WorkloadFacts],
    costs: Mapping[str, LayerCostTable],
    networks: Mapping[str, Any],
) -> list[list[str]]:
    from edgebench.words.layers import cause_sentence

    said = [
        [sentence] for sentence in sweep_sentences(points, brief_names(one.name for one in points))
    ]
    for one, sentences in zip(points, said, strict=False) if len(said) == len(points) else ():
        table = costs.get(one.name)
        if table and (cost := table.slowed(one)):
            sentences.append(cause_sentence(table, cost, alone=True))
        sentences.extend(holder_sentences(one, networks))
        if saving := largest_saving(one):
            sentences.append(saving)
    return said


def _chapter(
    workload: WorkloadFacts,
    brief: str,
    layers: LayerCostTable | None,
    fits: Sequence[CurveFits],
    networks: Mapping[str, Any],
) -> Chapter:
    tables = [limits_table(workload)]
    cost = layers.slowed(workload) if layers else None
    if layers and cost:
        tables.append(layers_table(layers, cost))
    return Chapter(workload.name, brief, all_answers(workload, layers, fits, networks), tables)


def _table_of(workload: WorkloadFacts, tables: Iterable[LayerCostTable]) -> LayerCostTable | None:
    return next((t for t in tables if t.workload == workload.key.id), None)


def _noted_once(chapters: Iterable[Chapter]) -> list[Chapter]:
    """The chapters; what stands below a table stands below the first such table alone."""
    seen: set[str] = set()

    def noted(table: ReportTable) -> ReportTable:
        new = table.note not in seen
        seen.add(table.note)
        return table if new else replace(table, note="")

    return [replace(one, tables=[*map(noted, one.tables)]) for one in chapters]


def _doubts(points: Iterable[WorkloadFacts], brief: Mapping[str, str]) -> Iterator[Doubt]:
    for one in points:
        for point in one.points:
            for doubt in point.doubts:
                yield structs.replace(doubt, workload=brief[one.name], limit=limit_label(point))
