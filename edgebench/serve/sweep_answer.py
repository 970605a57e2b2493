"""What a sweep found, as plain data: the table of limits and the measured slowdowns.

Made from records alone, so that a process without numpy and pandas makes it in a moment;
:mod:`edgebench.serve.limit_predictions` adds what models and layers' times tell.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

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
from edgebench.results.derived import kept_advice
from edgebench.results.facts import WorkloadFacts, sweep_facts
from edgebench.results.point_facts import PointFacts
from edgebench.results.rounds import STEADY
from edgebench.results.spread import Spread
from edgebench.results.sweep_reader import Sweep, read_sweep
from edgebench.results.workload_key import short_names
from edgebench.text import printable
from edgebench.units import format_limit

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
        "times_s": {name: _spread(s) for name, s in point.times_s.items() if name != STEADY},
        "slowdowns": {
            name: [ratio.low, ratio.median, ratio.high]
            for name, ratio in point.ratios.items()
            if name != STEADY
        },
    }


def _spread(spread: Spread) -> list[float]:
    return [spread.low, spread.median, spread.high]
