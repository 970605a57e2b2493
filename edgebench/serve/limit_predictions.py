"""What models and layers' times tell of a sweep's workloads, as plain data.

Predictions are made at fixed shares of demand; the page's slider moves among those, so that every
number it shows was predicted and none interpolated by the page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.errors import EdgebenchError
from edgebench.report.answers import LAYERS, SLOW, layer_sentences
from edgebench.results.facts import WorkloadFacts, sweep_facts
from edgebench.results.results import load
from edgebench.slowdown.prediction_source import source_of
from edgebench.slowdown.query import WorkloadQuery
from edgebench.words.model import model_sentences

if TYPE_CHECKING:
    from edgebench.analysis.layer_costs.table import LayerCostTable
    from edgebench.results.results import Results
    from edgebench.slowdown.answer import Answer
    from edgebench.slowdown.models.fitting import CurveFits
    from edgebench.slowdown.prediction import Prediction

#: The limits that are predicted, in percent of demand.
_SHARES = tuple(range(120, 28, -2))
#: How many of the layers that a limit slows down are sent.
_MOST_LAYERS = 5


def predict_limits(sweep: Path) -> dict[str, Any]:
    """``{"workloads": [...], "warnings": [...], "why_not": text or None}`` of one sweep.

    A workload is named as :mod:`edgebench.serve.sweep_answer` names it. Its ``answers`` are the
    sentences to add to each question; its ``prediction`` is None where there is none.

    Raises:
        EdgebenchError: the sweep can't be read.
    """
    results = load(sweep)
    points = sweep_facts(results.sweeps[0]).workloads
    warnings: list[str] = []
    costs, fits = _layer_costs(results, warnings), _fits(results, warnings)
    try:
        query = WorkloadQuery()
        source = source_of(sweep, query)
        made = source.predict(query, [f"{share}%" for share in _SHARES])
        warnings += source.warnings
        why_not = None
    except EdgebenchError as error:
        made, why_not = [], f"{error.what}; {error.remedy}" if error.remedy else error.what
    networks = results.sweeps[0].networks
    shown = [_workload(one, made, costs, fits, networks) for one in points]
    return {"workloads": shown, "warnings": list(dict.fromkeys(warnings)), "why_not": why_not}


def _layer_costs(results: Results, warnings: list[str]) -> list[LayerCostTable]:
    from edgebench.analysis.layer_costs.builder import layer_cost_tables

    try:
        tables, left_out = layer_cost_tables(results)
    except EdgebenchError as error:
        warnings.append(f"no layer times: {error.what}")
        return []
    warnings += left_out
    return tables


def _fits(results: Results, warnings: list[str]) -> list[CurveFits]:
    from edgebench.slowdown.curves import curves
    from edgebench.slowdown.models.fitting import fit_all

    try:
        fits, skipped = fit_all([c for c in curves(results) if c.phase == "total"])
    except EdgebenchError as error:
        warnings.append(f"no fit: {error.what}")
        return []
    warnings += skipped
    return fits


def _workload(
    one: WorkloadFacts,
    made: Sequence[Prediction],
    costs: Sequence[LayerCostTable],
    fits: Sequence[CurveFits],
    networks: Mapping[str, Any],
) -> dict[str, Any]:
    layers = next((t for t in costs if t.workload == one.key.id), None)
    said = [words for f in fits if f.curve.workload == one.key.id for words in model_sentences(f)]
    found = next((p for p in made if p.subject.workload == one.key.id), None)
    return {
        "name": one.name,
        "answers": {SLOW: said, LAYERS: layer_sentences(one, layers, networks)},
        "prediction": _prediction(found) if found else None,
    }


def _prediction(one: Prediction) -> dict[str, Any]:
    return {
        "model": one.model,
        "demand_bytes": one.demand_bytes,
        "at": [_finite(_limit(at)) for at in one.at],
    }


def _limit(at: Answer) -> dict[str, Any]:
    return {
        **at.to_json(),
        "layers": list(map(asdict, at.layers[:_MOST_LAYERS])),
    }


def _finite(data: Any) -> Any:
    """The same data, with None for numbers that JSON doesn't have."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
