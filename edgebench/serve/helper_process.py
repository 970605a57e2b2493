"""A process that answers one request needing large libraries, and ends.

The request is JSON on stdin; the reply is JSON on stdout, ``{"answer": …}`` or
``{"error": {"what", "where", "remedy"}}``. What a sweep found is told from its records alone, in a
moment, without numpy and pandas; what models and layers' times tell takes longer.

Predictions are made at fixed shares of demand; the page's slider moves among those, so that every
number it shows was predicted and none interpolated by the page.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec

from edgebench.answers.limits import (
    WorkloadAnswer,
    advice_headline,
    advice_table,
    blame_words,
    layers_table,
    limits_table,
    needs_words,
    overview_table,
    swap_words,
    workload_answer,
)
from edgebench.answers.table import brief_factor, size
from edgebench.answers.trials import sweep_warnings, warning_lines, warnings_of
from edgebench.errors import EdgebenchError
from edgebench.installation import missing_library_error
from edgebench.results.derived import kept_advice
from edgebench.results.facts import WorkloadFacts, sweep_facts
from edgebench.results.sweep_reader import read_sweep
from edgebench.results.times import STEADY
from edgebench.results.workload_key import short_names
from edgebench.text import printable

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
    machine = [sweep.environment.get(key) for key in ("board", "cpu_model", "os")]
    state = "unfinished" if sweep.complete is None else "complete"
    return {
        "device": sweep.device,
        "state": "running" if sweep.running else state,
        "done": len(sweep.records),
        "planned": sweep.planned,
        "machine": ", ".join(printable(str(word)) for word in machine if word),
        "warnings": [*sweep.warnings, *lines],
        "shared": shared,
        "workloads": [_workload(one, own) for one, own in zip(shown, answers, strict=True)],
        "left_out": len(found) - len(shown),
        "advice": remedies,
        "overview": overview_table(answers).to_json(),
    }


def _workload(one: WorkloadFacts, answer: WorkloadAnswer) -> dict[str, Any]:
    slow = answer.slow
    tiles = {
        "needs": needs_words(answer).partition(" ")[2],
        "give": size(answer.give_bytes) + swap_words(answer) if one.tried else "",
        "slowed": f"{brief_factor(slow[0])} below {size(slow[1])}" if slow else "",
    }
    total = "the first round" if one.has_rounds else "the whole trial"
    return {
        "name": one.name,
        "brief": answer.name,
        "demand_bytes": one.demand_bytes,
        "pass_words": "a steady round" if one.has_steady else total,
        "tiles": tiles,
        "table": limits_table(answer, every=True, peaks=True).to_json(),
        "knee": answer.knee,
        "points": [
            {
                "unlimited": point.limits.label == "max",
                "limit_bytes": point.limit_bytes,
                "outcomes": point.outcomes,
                **{
                    # `total` is the same as `steady`, and there also without rounds.
                    key: {n: [s.low, s.median, s.high] for n, s in phases.items() if n != STEADY}
                    for key, phases in (("times_s", point.times_s), ("slowdowns", point.ratios))
                },
            }
            for point in one.points
            if point.outcomes
        ],
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
    from edgebench.analysis.layer_costs import layer_cost_tables, sorted_layers
    from edgebench.results.results import load
    from edgebench.slowdown.prediction import WorkloadQuery, source_of

    results = load(sweep)
    costs, predictions, why_not = {}, {}, None
    try:
        tables, warnings = layer_cost_tables(results)
        costs = {table.workload: table for table in tables}
    except EdgebenchError as error:
        warnings = [f"no layer times: {error.what}"]
    try:
        source = source_of(sweep, WorkloadQuery())
        made = source.predict([f"{share}%" for share in _SHARES])
        predictions = {one.subject.workload: one for one in made}
        warnings = [*warnings, *source.warnings]
    except EdgebenchError as error:
        why_not = f"{error.what}; {error.remedy}" if error.remedy else error.what
    workloads = []
    for one in sweep_facts(results.sweeps[0]).workloads:
        answer: dict[str, Any] = {"name": one.name, "layers": None, "blame": "", "prediction": None}
        table = costs.get(one.key.id)
        if table and (cost := table.slowed(one)):
            rows = sorted_layers(table, "cost", cost.at.label)
            titled = replace(layers_table(table, rows, cost), title=f"Layers at {cost.at.limit}")
            answer |= {"layers": titled.to_json(), "blame": blame_words(table, cost)}
        if found := predictions.get(one.key.id):
            limits = [
                {**at.to_json(), "layers": list(map(asdict, at.layers[:_MOST_LAYERS]))}
                for at in found.at
            ]
            answer["prediction"] = {"at": limits}
        workloads.append(answer)
    return {
        "workloads": workloads,
        "warnings": list(dict.fromkeys(warnings)),
        "why_not": why_not,
    }


def reply_to(request: dict[str, Any]) -> bytes:
    """Return the reply to one request, as JSON: its answer, or why there is none."""
    try:
        reply = {"answer": _answer(request)}
    except (EdgebenchError, ModuleNotFoundError) as error:
        known = error if isinstance(error, EdgebenchError) else missing_library_error(error)
        if known is None:
            raise
        reply = {"error": {"what": known.what, "where": known.where, "remedy": known.remedy}}
    # Numbers that JSON doesn't have become null.
    return msgspec.json.encode(reply)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    if request["about"] == "answer":
        return sweep_answer(Path(request["sweep"]))
    if request["about"] == "predictions":
        return predict_limits(Path(request["sweep"]))
    from edgebench.serve.form import FormFiles, check_form, form_tables

    files = FormFiles(Path(request["files"]) if request["files"] else None)
    if request["about"] == "form":
        return form_tables(files)
    return check_form(request["sent"], files)


def main() -> None:
    """Read a request from stdin and print the reply."""
    os.nice(_NICE)
    sys.stdout.buffer.write(reply_to(json.load(sys.stdin)))


if __name__ == "__main__":
    main()
