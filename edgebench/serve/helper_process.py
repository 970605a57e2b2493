"""A process that answers one request needing large libraries, and ends.

The request is JSON on stdin; the reply is JSON on stdout, ``{"answer": …}`` or
``{"error": {"what", "where", "remedy"}}``. What a sweep found is told from its records alone, in a
moment, without numpy and pandas; what models and layers' times tell takes longer.

Predictions are made at fixed shares of demand; the page's slider moves among those, so that every
number it shows was predicted and none interpolated by the page. Boards are answered by the same
functions as ``edgebench predict --storage``.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.answers.advice import advice_headline, advice_table
from edgebench.answers.limits import (
    WorkloadAnswer,
    limits_table,
    needs_words,
    overview_table,
    swap_words,
    workload_answer,
)
from edgebench.answers.table import brief_factor, size
from edgebench.answers.warnings import sweep_warnings, warning_lines, warnings_of
from edgebench.boards.board import known_boards
from edgebench.errors import EdgebenchError, MachineError
from edgebench.extras import missing_library_error
from edgebench.results.derived import kept_advice
from edgebench.results.facts import WorkloadFacts, sweep_facts
from edgebench.results.point_facts import PointFacts
from edgebench.results.rounds import STEADY
from edgebench.results.sweep_reader import Sweep, read_sweep
from edgebench.results.workload_key import short_names
from edgebench.text import printable
from edgebench.units import MIB, format_limit

if TYPE_CHECKING:
    from edgebench.analysis.layer_table import LayerCostTable
    from edgebench.results.results import Results
    from edgebench.slowdown.answer import Answer
    from edgebench.slowdown.prediction import Prediction

#: Everything else on the machine has a higher priority.
_NICE = 10
#: A screen shows no more workloads; History has every trial.
_MOST_WORKLOADS = 300


def sweep_answer(path: Path) -> dict[str, Any]:
    """Return the sweep's state, and each workload's table and points, those with limits first.

    Raises:
        ResultsError: it can't be read.
    """
    sweep = read_sweep(path)
    found = sorted(sweep_facts(sweep).workloads, key=lambda one: not one.tried)
    brief, shared = short_names([one.name for one in found])
    shown = found[:_MOST_WORKLOADS]
    answers = [workload_answer(one, brief[one.name]) for one in shown]
    kept = kept_advice(path)
    remedies = replace(advice_table(kept), title=advice_headline(kept)).to_json() if kept else None
    doubts = [w for one in shown for w in warnings_of(one, brief[one.name] if shown[1:] else "")]
    lines = warning_lines([*doubts, *sweep_warnings(sweep)])
    return {
        **_about(sweep),
        "warnings": [*sweep.warnings, *lines],
        "shared": shared,
        "workloads": [_workload(one, own) for one, own in zip(shown, answers, strict=True)],
        "left_out": len(found) - len(shown),
        "advice": remedies,
        "overview": overview_table(answers).to_json(),
    }


def _about(sweep: Sweep) -> dict[str, Any]:
    machine = [sweep.environment.get(key) for key in ("board", "cpu_model", "os")]
    started = min(
        (str(one) for one in sweep.columns.words("started_utc", _rows(sweep))), default=""
    )
    state = "unfinished" if sweep.complete is None else "complete"
    return {
        "device": sweep.device,
        "state": "running" if sweep.running else state,
        "started_utc": started,
        "done": len(sweep.records),
        "planned": sweep.planned,
        "machine": ", ".join(printable(str(word)) for word in machine if word),
    }


def _rows(sweep: Sweep) -> range:
    return range(len(sweep.records))


def _workload(one: WorkloadFacts, answer: WorkloadAnswer) -> dict[str, Any]:
    slow = answer.slow
    tiles = {
        "needs": needs_words(answer).partition(" ")[2],
        "give": size(answer.give_bytes) + swap_words(answer) if one.tried else "",
        "slowed": f"{brief_factor(slow[0])} below {size(slow[1])}" if slow else "",
    }
    return {
        "name": one.name,
        "brief": answer.name,
        "demand_bytes": one.demand_bytes,
        "library_bytes": one.library_bytes,
        "pass_words": _timed(one),
        "tiles": tiles,
        "table": limits_table(answer, every=True, peaks=True).to_json(),
        "knee": answer.knee,
        "points": [_point(point) for point in one.points if point.outcomes],
    }


def _timed(one: WorkloadFacts) -> str:
    """Return what ``total`` times."""
    if one.has_steady:
        return "a steady round"
    return "the first round" if one.has_rounds else "the whole trial"


def _point(point: PointFacts) -> dict[str, Any]:
    return {
        "limit": format_limit(point.limits.label, point.limit_bytes),
        "unlimited": point.limits.label == "max",
        "limit_bytes": point.limit_bytes,
        "outcomes": point.outcomes,
        # `total` is the same as `steady`, and there also without rounds.
        "times_s": {
            name: [spread.low, spread.median, spread.high]
            for name, spread in point.times_s.items()
            if name != STEADY
        },
        "slowdowns": {
            name: [ratio.low, ratio.median, ratio.high]
            for name, ratio in point.ratios.items()
            if name != STEADY
        },
    }


#: The limits that are predicted, in percent of demand.
_SHARES = tuple(range(120, 28, -2))
#: How many of the layers that a limit slows down are sent.
_MOST_LAYERS = 5


def predict_limits(sweep: Path) -> dict[str, Any]:
    """``{"workloads": [...], "warnings": [...], "why_not": text or None}``.

    Workloads have the names of :func:`sweep_answer`. ``layers`` is the table of those that slow
    it, ``blame`` a line; ``prediction`` is None where there is none.

    Raises:
        EdgebenchError: the sweep can't be read.
    """
    from edgebench.results.results import load
    from edgebench.slowdown.prediction import WorkloadQuery, source_of

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
        "workloads": [_predicted(one, made, costs) for one in points],
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
    from edgebench.results.results import load
    from edgebench.slowdown.prediction import WorkloadQuery, at_storage, source_of

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
                at = _finite(_limit_answer(made.at[0]))
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


def _predicted(
    one: WorkloadFacts, made: Sequence[Prediction], costs: Sequence[LayerCostTable]
) -> dict[str, Any]:
    from edgebench.analysis.layer_table import sorted_layers
    from edgebench.answers.trials import blame_words, layers_table

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
        "prediction": {"at": [_finite(_limit_answer(at)) for at in found.at]} if found else None,
    }


def _limit_answer(at: Answer) -> dict[str, Any]:
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


def answer_request(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to one request, in the process itself.

    Raises:
        EdgebenchError: it can't be answered.
    """
    if request["about"] == "answer":
        return sweep_answer(Path(request["sweep"]))
    if request["about"] == "predictions":
        return predict_limits(Path(request["sweep"]))
    if request["about"] == "boards":
        return predict_boards(Path(request["sweep"]), request.get("reserve"))
    from edgebench.serve.form import FormFiles, check_form, form_tables

    files = FormFiles(Path(request["files"]) if request["files"] else None)
    if request["about"] == "form":
        return form_tables(files)
    return check_form(request["sent"], files)


def reply_to(request: dict[str, Any]) -> bytes:
    """Return the reply to one request, as JSON: its answer, or why there is none."""
    try:
        reply = {"answer": answer_request(request)}
    except (EdgebenchError, ModuleNotFoundError) as error:
        known = error if isinstance(error, EdgebenchError) else missing_library_error(error)
        if known is None:
            raise
        reply = {"error": {"what": known.what, "where": known.where, "remedy": known.remedy}}
    return json.dumps(reply).encode()


def main() -> None:
    """Read a request from stdin and print the reply."""
    os.nice(_NICE)
    sys.stdout.buffer.write(reply_to(json.load(sys.stdin)))


if __name__ == "__main__":
    main()
