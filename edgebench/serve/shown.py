"""What the page is told, as plain data: the machine, jobs, a sweep, a trial."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from edgebench.live.curve import Bucket
from edgebench.live.events import EndedSpan, Metric, OpenSpan
from edgebench.live.sweep import SweepState
from edgebench.live.system import SystemMemory
from edgebench.live.trial import KINDS, TrialTail
from edgebench.results.reading import settings_columns
from edgebench.serve.job import SOME_FAILED, Job

#: Columns of the machine's rows, as js/system.js reads them: work B's five, and two more.
SYSTEM = ("t_s", "total", "available", "used", "used_share", "active", "swap_used", "cpu_share")


def system_row(seen: SystemMemory) -> list[Any]:
    """The machine at one moment, as :data:`SYSTEM` names it; seconds are monotonic."""
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


def job_data(job: Job) -> dict[str, Any]:
    """What the page shows of a job."""
    return {
        "id": job.id,
        "name": job.name,
        "state": job.state,
        "asked_utc": job.asked_utc,
        "some_failed": job.exit_code == SOME_FAILED,
        "says": job.says,
    }


def sweep_data(state: SweepState, reasons: Iterable[str]) -> dict[str, Any]:
    """How a sweep stands; time left in whole seconds, so that it isn't told at each tick.

    ``reasons`` is why trials of it failed.
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


def trial_whole(trial: TrialTail) -> dict[str, Any]:
    """All that is known of the trial under way."""
    post = trial.post
    return {
        "trial": post.trial,
        "point": post.point,
        "repeat": post.repeat,
        "strategy": post.strategy,
        "settings": plain_settings(post.settings),
        "limits": asdict(post.limits),
        "timeout_s": post.timeout_s,
        "kind_names": KINDS,
        "spans": [_ended(span) for span in trial.spans],
        **_news(trial, 0, 0),
        "metrics": [_metric(metric) for metric in trial.metrics],
    }


def trial_news(trial: TrialTail) -> dict[str, Any]:
    """What the last poll of the trial brought."""
    news = trial.news
    return {
        # A fast network ends thousands of spans a second: the last ones are enough to see.
        "spans": [_ended(span) for span in news.ended[-32:]],
        **_news(trial, news.changed, news.kinds_changed),
        "metrics": [_metric(metric) for metric in news.metrics],
    }


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A workload's settings as one line each."""
    return {k: v for k, v in settings_columns(settings).items() if v is not None}


def _news(trial: TrialTail, changed: int, kinds_changed: int) -> dict[str, Any]:
    return {
        "elapsed_s": trial.elapsed_s,
        "peak_bytes": trial.peak_bytes,
        "now": trial.now,
        "cpu_cores": trial.cpu_cores,
        "open": [_open(span) for span in trial.open],
        "from": changed,
        "points": [_point(point) for point in trial.curve.points[changed:]],
        "kinds_from": kinds_changed,
        "kinds": trial.kinds.rows[kinds_changed:],
    }


def _point(point: Bucket) -> list[Any]:
    return [round(point.t_s, 4), point.low_bytes, point.high_bytes, point.swap_bytes]


def _open(span: OpenSpan) -> dict[str, Any]:
    return asdict(span)


def _ended(span: EndedSpan) -> dict[str, Any]:
    return {**asdict(span.span), "wall_s": span.wall_s, "peak_bytes": span.peak_bytes}


def _metric(metric: Metric) -> dict[str, Any]:
    return {"t_s": round(metric.t_s, 4), "step": metric.step, "values": metric.values}
