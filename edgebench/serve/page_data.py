"""What the live stream sends to the page, as plain data: the machine, jobs, a sweep, a trial."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from edgebench.boards.board import known_boards
from edgebench.measures.machine.system_files import SystemMemory
from edgebench.measures.strategies.cgroup import STATISTICS_REMEDY
from edgebench.results.live.events import EndedSpan
from edgebench.results.live.sweep import SweepState
from edgebench.results.live.trial import KINDS, TrialTail
from edgebench.results.sweep_reader import settings_columns
from edgebench.serve.job import SOME_FAILED, Job

#: A fast network ends thousands of spans a second: the last ones are enough to see.
_MOST_NEW_SPANS = 32


def system_row(seen: SystemMemory) -> list[Any]:
    """The machine at one moment, in the order that js/system.js reads; seconds are monotonic."""
    return [
        seen.t_ns / 1e9,
        seen.total_bytes,
        seen.available_bytes,
        seen.used_bytes,
        seen.used_share,
        seen.active_bytes,
        seen.swap_used_bytes,
        seen.cpu_share,
    ]


def board_rows() -> list[dict[str, Any]]:
    """Each board, the smallest first: of its RAM what Linux has, and what programs can have."""
    return [
        {
            "name": board.name,
            "title": board.title,
            "usable_bytes": board.usable_bytes,
            "left_bytes": board.left_bytes,
            "memory": board.memory_label,
        }
        for board in sorted(known_boards().values(), key=lambda one: one.left_bytes)
    ]


def job_data(job: Job) -> dict[str, Any]:
    """What the page shows of a job."""
    return {
        "id": job.id,
        "name": job.name,
        "state": job.state,
        "queued_utc": job.queued_utc,
        "some_failed": job.exit_code == SOME_FAILED,
        "error": job.error,
    }


def sweep_data(state: SweepState, reasons: Iterable[str]) -> dict[str, Any]:
    """A sweep's progress; ``reasons``: why trials of it failed.

    The time left is in whole seconds, so that it doesn't change at each reading.
    """
    return {
        "name": state.name,
        "device": state.device,
        "running": state.running,
        "complete": state.complete,
        "total": state.total,
        "done": state.done,
        "outcomes": state.outcomes,
        "left_s": None if state.left_s is None else round(state.left_s),
        "reasons": list(reasons),
        "warnings": state.warnings,
    }


def trial_data(trial: TrialTail) -> dict[str, Any]:
    """All that is known of the trial in progress."""
    live = trial.live
    return {
        "trial": live.trial,
        "strategy": live.strategy,
        "timeout_s": live.timeout_s,
        "settings": plain_settings(live.settings),
        "limits": asdict(live.limits),
        "kind_names": KINDS,
        "kinds_missing": STATISTICS_REMEDY if trial.quiet else None,
        **_growing(trial, 0, 0),
        "spans": [_span(ended) for ended in trial.spans],
        "metrics": [asdict(metric) for metric in trial.metrics],
    }


def trial_update(trial: TrialTail) -> dict[str, Any]:
    """What the last poll of the trial brought."""
    news = trial.news
    return {
        **_growing(trial, news.changed, news.kinds_changed),
        "spans": [_span(ended) for ended in news.ended[-_MOST_NEW_SPANS:]],
        "metrics": [asdict(metric) for metric in news.metrics],
    }


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A workload's settings as one line each."""
    return {k: v for k, v in settings_columns(settings).items() if v is not None}


def _growing(trial: TrialTail, changed: int, kinds_changed: int) -> dict[str, Any]:
    """The trial's present values, and its curves from these points on."""
    points = trial.curve.points[changed:]
    return {
        "elapsed_s": trial.elapsed_s,
        "peak_bytes": trial.peak_bytes,
        "now": trial.now,
        "cpu_cores": trial.cpu_cores,
        "open": [asdict(span) for span in trial.open],
        "from": changed,
        "points": [[round(p.t_s, 4), p.low_bytes, p.high_bytes, p.swap_bytes] for p in points],
        "kinds_from": kinds_changed,
        "kinds": trial.kinds.rows[kinds_changed:],
    }


def _span(ended: EndedSpan) -> dict[str, Any]:
    return {**asdict(ended.span), "wall_s": ended.wall_s, "peak_bytes": ended.peak_bytes}
