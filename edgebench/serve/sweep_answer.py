"""What a sweep found, as plain data: the report's sentences and the measured slowdowns.

Made from records alone, so that a process without numpy and pandas makes it in a moment;
:mod:`edgebench.serve.limit_predictions` adds what models and layers' times tell.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgebench.report.answers import measured_answers
from edgebench.report.remedies import remedies_table
from edgebench.report.tables import summary_table
from edgebench.results.advice_file import kept_advice
from edgebench.results.facts import WorkloadFacts, sweep_facts
from edgebench.results.point_facts import PointFacts
from edgebench.results.rounds import STEADY
from edgebench.results.spread import Spread
from edgebench.results.sweep_reader import Sweep, read_sweep
from edgebench.results.workload_key import short_names
from edgebench.text import printable
from edgebench.words.advice import kept_advice_sentence
from edgebench.words.kills import watching_warnings
from edgebench.words.labels import limit_label, pass_words

#: A screen shows no more workloads; History has every trial.
_MOST_WORKLOADS = 300


def sweep_answer(path: Path) -> dict[str, Any]:
    """The sweep's state, and each workload's answers and points; workloads with limits come first.

    Raises:
        ResultsError: it can't be read.
    """
    sweep = read_sweep(path)
    found = sorted(sweep_facts(sweep).workloads, key=lambda one: not one.tried)
    brief, shared = short_names([one.name for one in found])
    shown = found[:_MOST_WORKLOADS]
    table = summary_table(shown, {})
    columns = len(table.columns) - 1
    return {
        **_about(sweep),
        "shared": shared,
        "workloads": [_workload(one, brief[one.name]) for one in shown],
        "left_out": len(found) - len(shown),
        "advice": _advice(path),
        # The last column is for layers, which are not known here.
        "summary": {
            "columns": table.columns[:columns],
            "rows": [row[:columns] for row in table.rows],
        },
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
        "warnings": [*watching_warnings(sweep), *sweep.warnings],
    }


def _advice(path: Path) -> dict[str, Any] | None:
    """What a search for remedies found; None: the sweep is none."""
    if (kept := kept_advice(path)) is None:
        return None
    table = remedies_table(kept)
    ranking = {"columns": table.columns, "rows": table.rows}
    return {"sentence": kept_advice_sentence(kept), "typed": kept.typed, **ranking}


def _rows(sweep: Sweep) -> range:
    return range(len(sweep.records))


def _workload(one: WorkloadFacts, brief: str) -> dict[str, Any]:
    return {
        "name": one.name,
        "brief": brief,
        "demand_bytes": one.demand_bytes,
        "library_bytes": one.library_bytes,
        "pass_words": pass_words(one),
        "answers": [asdict(answer) for answer in measured_answers(one)],
        "points": [_point(point) for point in one.points if point.outcomes],
    }


def _point(point: PointFacts) -> dict[str, Any]:
    return {
        "limit": limit_label(point),
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
