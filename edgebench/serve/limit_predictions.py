"""What models and layers' times tell of a sweep's workloads, as plain data.

Predictions are made at fixed shares of demand; the page's slider moves among those, so that every
number it shows was predicted and none interpolated by the page. Boards are answered by the same
functions as ``edgebench predict --storage``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.analysis.layer_table import sorted_layers
from edgebench.answers.layers import blame_words, layers_table
from edgebench.boards.board import known_boards
from edgebench.errors import EdgebenchError, MachineError
from edgebench.results.facts import WorkloadFacts, sweep_facts
from edgebench.results.results import load
from edgebench.slowdown.prediction import WorkloadQuery, at_storage, source_of
from edgebench.units import MIB

if TYPE_CHECKING:
    from edgebench.analysis.layer_table import LayerCostTable
    from edgebench.results.results import Results
    from edgebench.slowdown.answer import Answer
    from edgebench.slowdown.prediction import Prediction

#: The limits that are predicted, in percent of demand.
_SHARES = tuple(range(120, 28, -2))
#: How many of the layers that a limit slows down are sent.
_MOST_LAYERS = 5


def predict_limits(sweep: Path) -> dict[str, Any]:
    """``{"workloads": [...], "warnings": [...], "why_not": text or None}``.

    A workload is named as :mod:`edgebench.serve.sweep_answer` names it. Its ``layers`` are the
    table of those that slow it, its ``blame`` a line; its ``prediction`` is None where there is
    none.

    Raises:
        EdgebenchError: the sweep can't be read.
    """
    results = load(sweep)
    points = sweep_facts(results.sweeps[0]).workloads
    warnings: list[str] = []
    costs = _layer_costs(results, warnings)
    made: Sequence[Prediction] = []
    why_not = None
    try:
        query = WorkloadQuery()
        source = source_of(sweep, query)
        made = source.predict(query, [f"{share}%" for share in _SHARES])
        warnings += source.warnings
    except EdgebenchError as error:
        why_not = f"{error.what}; {error.remedy}" if error.remedy else error.what
    return {
        "workloads": [_workload(one, made, costs) for one in points],
        "warnings": list(dict.fromkeys(warnings)),
        "why_not": why_not,
    }


def predict_boards(sweep: Path, reserve_bytes: int | None = None) -> dict[str, Any]:
    """``{"workloads": [{"name", "boards": {board: answer}}]}``: each with what a board can give it.

    Boards that hold all that a workload needs are not asked.

    Args:
        sweep: its folder.
        reserve_bytes: what a board's system keeps; None: as its file says.

    Raises:
        EdgebenchError: the sweep can't be read; or nothing can be predicted.
    """
    results = load(sweep)
    rooms: dict[str, dict[str, float]] = {}
    points = sweep_facts(results.sweeps[0]).workloads
    for name, board in known_boards().items():
        left = board.left_bytes if reserve_bytes is None else board.usable_bytes - reserve_bytes
        for one in points:
            room = left - (one.library_bytes or 0)
            if one.demand_bytes and 0 < room < one.demand_bytes:
                rooms.setdefault(name, {})[one.key.id] = room
    found: dict[str, dict[str, Any]] = {one.key.id: {} for one in points}
    if rooms:
        query = WorkloadQuery()
        here = source_of(sweep, query)
        for name, own in rooms.items():
            # Only reads are held.
            speed = replace(known_boards()[name].speed, write_bps=None, write_iops=None)
            try:
                source = at_storage(here, speed)
            except MachineError:
                # How many bytes a request reads was not measured.
                speed = replace(speed, read_iops=None)
                source = at_storage(here, speed)
            for subject, predictor in source.workloads(query):
                if subject.workload not in own:
                    continue
                made = predictor.predict(subject, [f"{own[subject.workload] / MIB}MiB"])
                at = _finite(_limit(made.at[0]))
                how = f"{at['source']}, at storage {speed.label}"
                found[subject.workload][name] = {**at, "source": how}
    return {"workloads": [{"name": one.name, "boards": found[one.key.id]} for one in points]}


def _layer_costs(results: Results, warnings: list[str]) -> list[LayerCostTable]:
    from edgebench.analysis.layer_costs import layer_cost_tables

    try:
        tables, left_out = layer_cost_tables(results)
    except EdgebenchError as error:
        warnings.append(f"no layer times: {error.what}")
        return []
    warnings += left_out
    return tables


def _workload(
    one: WorkloadFacts, made: Sequence[Prediction], costs: Sequence[LayerCostTable]
) -> dict[str, Any]:
    table = next((t for t in costs if t.workload == one.key.id), None)
    cost = table.slowed(one) if table else None
    found = next((p for p in made if p.subject.workload == one.key.id), None)
    layers, blame = None, ""
    if table and cost:
        rows = sorted_layers(table, "cost", cost.at.label)
        titled = replace(layers_table(table, rows, cost), title=f"Layers at {cost.at.limit}")
        layers, blame = titled.to_json(), blame_words(table, cost)
    return {
        "name": one.name,
        "layers": layers,
        "blame": blame,
        "prediction": {"at": [_finite(_limit(at)) for at in found.at]} if found else None,
    }


def _limit(at: Answer) -> dict[str, Any]:
    return {
        **at.to_json(),
        "layers": list(map(asdict, at.layers[:_MOST_LAYERS])),
    }


def _finite(data: Any) -> Any:
    """Return the same data, with None for numbers that JSON doesn't have."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
