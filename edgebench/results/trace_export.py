"""Trials as a Chrome trace: layers by thread and phase, memory and swap on the same time line.

The Trace Event Format (JSON Object Format), which https://ui.perfetto.dev and chrome://tracing
open. Times are microseconds from the trial's first sample or event; each trial is a process of
the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from edgebench.errors import ResultsError
from edgebench.measures.strategies.cgroup import STATISTICS_REMEDY
from edgebench.spans import Span, finished_spans, unfinished_spans

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.records import TrialRecord
    from edgebench.results.results import Results, Sweep

Event = dict[str, Any]

#: What of a span goes into its arguments, beside the layer's row in the table.
_MEASURED = (
    *("peak_bytes", "usage_before_bytes", "usage_after_bytes", "swap_before_bytes"),
    *("swap_after_bytes", "cpu_s", "major_faults", "minor_faults"),
)
_FACTS = ("type", "parameter_bytes", "buffer_bytes", "output_bytes", "flops", "file_bytes")
#: Columns of ``stat`` that split the usage.
_SPLIT = ("anon_bytes", "file_bytes", "shmem_bytes", "kernel_bytes")


class Traced(NamedTuple):
    """The trace as plain data, and what of it could not be had."""

    trace: dict[str, Any]
    left_out: list[str]


@dataclass(frozen=True)
class _Trial:
    """What is drawn of one trial; ``pid`` is its number in the trace."""

    pid: int
    record: TrialRecord
    events: list[dict[str, Any]]
    fast: pd.DataFrame | None
    stat: pd.DataFrame | None
    facts: Mapping[tuple[str, int], Mapping[str, Any]]

    def tid(self, thread: object) -> int:
        """A thread's number in the trace; viewers want no 0, nor one that two trials share."""
        return 1000 * self.pid + (thread if isinstance(thread, int) else 0)

    def times_ns(self) -> list[int]:
        """The moments of its events, and the first and last of its samples."""
        times = [e["t_ns"] for e in self.events if isinstance(e.get("t_ns"), int)]
        tables = [table for table in (self.fast, self.stat) if table is not None and len(table)]
        return times + [int(t) for table in tables for t in table["t_ns"].iloc[[0, -1]]]


def chrome_trace(results: Results, only: Sequence[str] = ()) -> Traced:
    """The trace of the trials named, or of all.

    Of a trial without events (any program) there is its memory alone, of one without samples its
    layers alone.

    Raises:
        ResultsError: of no trial here there is either.
    """
    events: list[Event] = []
    left_out: list[str] = []
    for trial in _trials(results, only, left_out):
        if times := trial.times_ns():
            events += _metadata(trial)
            drawn = [*_spans(trial), *_unfinished(trial, max(times)), *_counters(trial)]
            drawn += _end(trial, max(times))
            for event in drawn:
                event["ts"] = (event.pop("t_ns") - min(times)) / 1e3
            # In the order of time; of two that begin at once the longer first: it is outside.
            events += sorted(drawn, key=lambda e: (e["ts"], -e.get("dur", 0.0)))
    if not events:
        where, what = str(results.sweeps[0].path), "no trial here has events or samples to trace"
        raise ResultsError("; ".join([what, *left_out]), where=where)
    about = {"device": results.sweeps[0].device, "sweeps": [s.name for s in results.sweeps]}
    return Traced({"traceEvents": events, "displayTimeUnit": "ms", "otherData": about}, left_out)


def _trials(results: Results, only: Sequence[str], left_out: list[str]) -> Iterator[_Trial]:
    pid = 0
    for sweep in results.sweeps:
        facts = _facts(sweep)
        for record in sweep.records:
            if only and record.trial not in only:
                continue
            pid += 1
            place = (record.trial, sweep.name)
            events = _had(left_out, partial(results.events, *place)) or []
            fast = _had(left_out, partial(results.samples, *place))
            stat = _had(left_out, partial(results.stat, *place))
            if "stat_samples" in record.missing and STATISTICS_REMEDY not in left_out:
                left_out.append(STATISTICS_REMEDY)
            yield _Trial(pid, record, events, fast, stat, facts)


def _had(left_out: list[str], read: Callable[[], Any]) -> Any:
    try:
        return read()
    except ResultsError as error:
        words = f"left out: {error.what} ({error.where})"
        left_out += [] if words in left_out else [words]
        return None


def _facts(sweep: Sweep) -> dict[tuple[str, int], dict[str, Any]]:
    """Network and layer → its row in the layer table."""
    networks = sweep.networks.get("networks")
    return {
        (name, row.get("order")): row
        for name, network in (networks or {}).items()
        for row in network.get("table", [])
    }


def _metadata(trial: _Trial) -> Iterator[Event]:
    record, pid = trial.record, trial.pid
    networks = "+".join(record.settings.get("networks") or []) or record.settings.get("kind")
    words = f"trial {record.trial}: {networks} at {record.limits.label}, {record.outcome}"
    names: list[tuple[str, int, dict[str, Any]]] = [
        ("process_name", 0, {"name": words}),
        ("process_sort_index", 0, {"sort_index": pid}),
    ]
    threads = sorted({e["thread"] for e in trial.events if isinstance(e.get("thread"), int)})
    names += [("thread_name", thread, {"name": f"thread {thread}"}) for thread in threads]
    for name, thread, args in names:
        about = {"ph": "M", "name": name, "pid": pid, "tid": trial.tid(thread), "ts": 0}
        yield {**about, "args": args}


def _spans(trial: _Trial) -> Iterator[Event]:
    for span in finished_spans(trial.events):
        yield {
            "ph": "X",
            "name": _name(span.phase, span.network, span.name, span.round),
            "cat": span.phase,
            "pid": trial.pid,
            "tid": trial.tid(span.thread),
            "t_ns": span.start_ns,
            "dur": (span.end_ns - span.start_ns) / 1e3,
            "args": _args(trial, span),
        }


def _args(trial: _Trial, span: Span) -> dict[str, Any]:
    """What is known of the span; what the kernel did not tell is left out."""
    args: dict[str, Any] = {"phase": span.phase, "network": span.network, "layer": span.layer}
    args["round"] = None if span.round < 0 else span.round
    args |= {key: getattr(span, key) for key in _MEASURED}
    if span.network is not None and span.layer is not None:
        facts = trial.facts.get((span.network, span.layer), {})
        args |= {key: facts.get(key) for key in _FACTS}
    return {key: value for key, value in args.items() if value is not None}


def _unfinished(trial: _Trial, end_ns: int) -> Iterator[Event]:
    """What was under way when the trial ended, drawn up to its end."""
    for start in unfinished_spans(trial.events):
        phase, number = str(start.get("phase")), start.get("round")
        yield {
            "ph": "X",
            "name": _name(phase, start.get("network"), start.get("name"), number) + " (cut short)",
            "cat": phase,
            "pid": trial.pid,
            "tid": trial.tid(start.get("thread")),
            "t_ns": start["t_ns"],
            "dur": (end_ns - start["t_ns"]) / 1e3,
            "args": {"phase": phase, "cut_short": trial.record.outcome},
        }


def _name(phase: str, network: object, layer: object, number: object) -> str:
    if layer is not None:
        return f"{phase} {layer}"
    if phase == "round":
        return f"round {number}"
    return f"{phase} {network}" if network is not None else phase


def _counters(trial: _Trial) -> Iterator[Event]:
    """Usage and swap as sampled, the limit, and how memory.stat splits the usage."""
    limit = trial.record.limit_bytes
    if trial.fast is not None and len(trial.fast):
        fast = trial.fast[["t_ns", "usage_bytes", "swap_bytes"]]
        yield from _counter(trial, "memory", fast, ["usage_bytes"])
        yield from _counter(trial, "swap", fast, ["swap_bytes"])
        if limit is not None:
            ends = fast[["t_ns"]].iloc[[0, -1]].assign(limit_bytes=limit)
            yield from _counter(trial, "limit", ends, ["limit_bytes"])
    if trial.stat is not None:
        stat = trial.stat
        if {"file_bytes", "shmem_bytes"} <= set(stat.columns):
            # The kernel counts shared memory as file pages too; the parts must add up.
            stat = stat.assign(file_bytes=stat["file_bytes"] - stat["shmem_bytes"].fillna(0.0))
        yield from _counter(trial, "memory.stat", stat, _SPLIT)


def _counter(
    trial: _Trial, name: str, table: pd.DataFrame, columns: Sequence[str]
) -> Iterator[Event]:
    """A counter's values in bytes, where they change, and the last."""
    known = table[["t_ns", *(c for c in columns if c in table and table[c].notna().any())]]
    known = known.dropna()
    values = known.drop(columns="t_ns")
    if values.empty:
        return
    changed = values.ne(values.shift()).any(axis=1)
    changed.iloc[-1] = True
    series = [str(column).removesuffix("_bytes") for column in values.columns]
    for t_ns, *row in known[changed].itertuples(index=False):
        yield {
            "ph": "C",
            "name": f"{name} (bytes)",
            "pid": trial.pid,
            "tid": trial.tid(0),
            "t_ns": int(t_ns),
            "args": dict(zip(series, (int(value) for value in row), strict=True)),
        }


def _end(trial: _Trial, end_ns: int) -> Iterator[Event]:
    """How a trial ended that did not end well, at the last moment it used the CPU."""
    record = trial.record
    if record.outcome == "ok":
        return
    yield {
        "ph": "i",
        "name": record.outcome,
        "cat": "outcome",
        "s": "p",
        "pid": trial.pid,
        "tid": trial.tid(0),
        "t_ns": _last_alive_ns(trial, end_ns),
        "args": {"reason": record.reason or "", "oom_kills": record.oom_kills or 0},
    }


def _last_alive_ns(trial: _Trial, end_ns: int) -> int:
    if trial.fast is None or not trial.fast["cpu_ns"].notna().any():
        return end_ns
    used = trial.fast["cpu_ns"].diff() > 0
    return int(trial.fast.loc[used, "t_ns"].max()) if used.any() else end_ns
