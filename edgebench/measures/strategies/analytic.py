"""What a trial should need by what is in it: parameters, live outputs, workspace.

Nothing is measured here but the order of things: which layers were loaded and executed when is
taken from the trial's events, their sizes from the layer table.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from edgebench.measures.strategy import (
    ErrorBar,
    Reading,
    SpanReading,
    Strategy,
    TrialData,
    registered_strategy,
)
from edgebench.spans import Span

_EXECUTIONS = ("first", "execute", "prefill")
#: Schedules that keep a network's weights until all of it has run.
_KEEPING = ("bulk", "stream", "whole", "generate")
_NO_TABLE = "no layer table with live tensors: no network runs, or an older version made it"
Row = Mapping[str, Any]
#: A network's part, or a tensor of its that several parts use: what is loaded as one.
Part = tuple[str | None, str, bool]


@registered_strategy
class Analytic(Strategy):
    """Sums of the layer table along the schedule.

    A layer's execution holds the weights loaded by then, the tensors alive through it, and the
    copies that its convolutions make (:mod:`edgebench.layers.examination`).
    """

    name = "analytic"
    title = "parameters, live outputs and workspace"
    counts = "weights that are loaded, tensors alive, and copies that convolutions make"
    blind_to = (
        "the runtime (Python, torch and its libraries), allocators, page cache and the kernel; "
        "workspace of anything other than oneDNN's convolutions"
    )

    def read(self, trial: TrialData) -> Reading:
        """Read the layer tables and the order of the events."""
        rows = [row for table in trial.tables.values() for row in table]
        known = bool(rows) and all("live_peak_bytes" in row for row in rows)
        spans = _spans(trial) if known else []
        model = ErrorBar(None, "a model: how far it is off shows beside torch's allocations")
        peaks = [span.peak_bytes for span in spans if span.peak_bytes is not None]
        return Reading(
            strategy=self.name,
            peak_bytes=max(peaks, default=None),
            method="the largest of its spans",
            error=model,
            spans=tuple(spans),
            span_method="layer table along the schedule",
            span_error=model,
            missing={} if peaks else {"peak_bytes": _NO_TABLE},
        )


def _spans(trial: TrialData) -> list[SpanReading]:
    times, sizes = weights_over_time(trial)

    def loaded(t_ns: int, find: Any = bisect_right) -> int:
        index: int = find(times, t_ns)
        return sizes[index - 1] if index else 0

    batch = trial.record.settings.get("batch") if trial.record else None
    # The layer table is of one image; tensors grow with the batch.
    images = batch if isinstance(batch, int) else 1
    readings = []
    for span, rows in _layers(trial):
        row = rows[span.layer or 0]
        before, after = loaded(span.start_ns), loaded(span.end_ns)
        if span.phase == "load":
            # Before anything runs, the input alone is alive; else what the layer will be given.
            row = rows[0] if keeps_weights(trial) else row
            live = images * row["live_before_bytes"]
            readings.append(SpanReading(span.id, before + live, after + live, after + live))
        elif span.phase in _EXECUTIONS:
            working = row["live_peak_bytes"] + row["workspace_bytes"]
            # Weights go only once the layer has ended.
            after = loaded(span.end_ns, bisect_left)
            readings.append(
                SpanReading(
                    span.id,
                    before + images * row["live_before_bytes"],
                    max(before, after) + images * working,
                    after + images * row["live_after_bytes"],
                )
            )
    return readings


def _layers(trial: TrialData) -> Iterator[tuple[Span, Sequence[Row]]]:
    for span in trial.spans:
        rows: Sequence[Row] = trial.tables.get(span.network or "", ())
        if span.layer is not None and span.layer < len(rows):
            yield span, rows


def keeps_weights(trial: TrialData) -> bool:
    """Return whether the schedule loads all of a network first, and keeps it until it has run."""
    schedule = trial.record.settings.get("schedule") if trial.record else None
    return schedule in _KEEPING


def weights_over_time(trial: TrialData) -> tuple[list[int], list[int]]:
    """List when the loaded weights changed, and their bytes from then on."""
    keeping, layers = keeps_weights(trial), list(_layers(trial))
    # Without an execution, as in a trial that was killed before it, nothing is freed.
    executed = (span for span, _ in layers if span.phase in _EXECUTIONS)
    last = {(span.round, span.network): span.end_ns for span in executed}
    #: Each time a part's weights are needed (+1) or freed (-1): when, which, bytes.
    uses: list[tuple[int, Part, int, int]] = []
    for span, rows in layers:
        row = rows[span.layer or 0]
        tied: Mapping[str, int] = row.get("tied_bytes") or {}
        alone = row["parameter_bytes"] + row["buffer_bytes"] - sum(tied.values())
        parts: dict[Part, int] = {(span.network, row["part"], False): alone}
        parts |= {(span.network, name, True): size for name, size in tied.items()}
        for part, size in parts.items():
            if span.phase == "load":
                uses.append((span.end_ns, part, size, 1))
                if keeping and (span.round, span.network) in last:
                    uses.append((last[span.round, span.network], part, size, -1))
            elif span.phase == "first" and not keeping:
                uses.append((span.end_ns, part, size, -1))
    users: Counter[Part] = Counter()
    changes: list[tuple[int, int]] = []
    for t_ns, part, size, step in sorted(uses):
        before = users[part] > 0
        users[part] = max(0, users[part] + step)
        changes.append((t_ns, size * ((users[part] > 0) - before)))
    return [t for t, _ in changes], list(accumulate(size for _, size in changes))
