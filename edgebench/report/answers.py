"""A workload's questions and answers: from its records alone, or with its layers and models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgebench.report.content import ReportAnswer
from edgebench.results.facts import WorkloadFacts
from edgebench.text import as_sentence
from edgebench.words.fits import holder_sentences, viability_sentences
from edgebench.words.more_memory import more_memory_sentences
from edgebench.words.slowdown import slowdown_sentences

if TYPE_CHECKING:
    from edgebench.analysis.layer_costs.table import LayerCostTable
    from edgebench.slowdown.models.fitting import CurveFits

FITS, SLOW = "Does it fit?", "How slow is it?"
LAYERS, MORE = "Which layers cause the slowdown?", "How much does more memory help?"


def measured_answers(workload: WorkloadFacts) -> list[ReportAnswer]:
    """The answers that need only records: no pandas, no numpy."""
    return [
        ReportAnswer(FITS, viability_sentences(workload)),
        ReportAnswer(SLOW, slowdown_sentences(workload)),
        ReportAnswer(MORE, more_memory_sentences(workload)),
    ]


def all_answers(
    workload: WorkloadFacts,
    layers: LayerCostTable | None,
    fits: Sequence[CurveFits],
    networks: Mapping[str, Any],
) -> list[ReportAnswer]:
    """Every answer, with what the layers' times and sizes and the models' fits add."""
    from edgebench.words.model import model_sentences

    fit, slow, more = measured_answers(workload)
    for one in fits:
        if one.curve.phase == "total" and one.curve.workload == workload.key.id:
            slow.sentences.extend(model_sentences(one))
    caused = layer_sentences(workload, layers, networks)
    return [fit, slow, *([ReportAnswer(LAYERS, caused)] if caused else []), more]


def layer_sentences(
    workload: WorkloadFacts, table: LayerCostTable | None, networks: Mapping[str, Any]
) -> list[str]:
    """Which layers slow it, and apart from them which hold the memory that keeps it from fitting.

    Args:
        workload: whose layers.
        table: their times; None: no layer was timed.
        networks: the sweep's layer tables, as ``networks.json`` has them.
    """
    return [*_cause_sentences(workload, table), *holder_sentences(workload, networks)]


def _cause_sentences(workload: WorkloadFacts, table: LayerCostTable | None) -> list[str]:
    """Which layers take the added time at the tightest limit; else why that isn't known.

    None where no layer was timed: the report's warnings say why.
    """
    from edgebench.words.layers import cause_sentence, no_cause_sentence, warning_sentences

    cost = table.slowed(workload) if table and table.tightest() else None
    if table is None:
        return []
    if table.tightest() is None:
        return [no_cause_sentence(table)]
    # The doubts of all trials are among the report's warnings.
    quiet = replace(table, doubts=[], collections_s=[])
    warnings = [as_sentence(words) for words in warning_sentences(quiet)]
    cause = cause_sentence(table, cost, alone=True) if cost else no_cause_sentence(table)
    return [cause, *warnings]
