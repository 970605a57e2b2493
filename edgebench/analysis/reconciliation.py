"""Reconciles a sweep: the trials of each point, their ledgers and layers."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from edgebench.analysis.ledgers import PointLedgers
from edgebench.errors import ResultsError
from edgebench.measures.ledger import Ledger
from edgebench.measures.strategies import strategy_of, with_own_trial
from edgebench.records import TrialRecord
from edgebench.results.sweep_reader import Sweep
from edgebench.results.trial_readings import SpanKey, TrialReadings, read_trial
from edgebench.results.workload_key import workload_label
from edgebench.spans import Span

#: Phases whose layers have ledgers of their own.
_LAYER_PHASES = ("load", "first", "prefill", "forward", "backward")


@dataclass(frozen=True)
class LayerLedgers:
    """One layer's load or execution in the first round: what each strategy saw, its ledgers."""

    key: SpanKey
    span: Span
    figures: dict[str, tuple[int | None, int | None, int | None]]
    ledgers: tuple[Ledger, ...]


@dataclass(frozen=True)
class Reconciliation:
    """One point: its trials, the ledgers of the whole trial and of each layer.

    Args:
        costs: strategy → how many times as long its own trial took as a timed one, median.
        missing: strategy → why it is not there, and how to get it.
    """

    chain: PointLedgers
    ledgers: tuple[Ledger, ...]
    layers: tuple[LayerLedgers, ...]
    costs: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def record(self) -> TrialRecord:
        """The timed trial that is reconciled."""
        return self.chain.timed.record

    @property
    def title(self) -> str:
        """Workload, limit, trial."""
        record = self.record
        limit = "unlimited" if record.limit_bytes is None else f"at {record.limit_bytes >> 20} MiB"
        return f"{workload_label(record.settings)} · {limit} · trial {record.trial}"

    def to_json(self) -> dict[str, Any]:
        """Plain data: readings, ledgers, layers, costs, what is missing."""
        trials = [self.chain.timed, *self.chain.own.values()]
        readings = [
            {"trial": trial.record.trial, **_outline(trial, name)}
            for trial in trials
            for name in trial.readings
        ]
        return {
            "trial": self.record.trial,
            "point": self.record.point,
            "settings": self.record.settings,
            "limit_bytes": self.record.limit_bytes,
            "readings": readings,
            "ledgers": [ledger.to_json() for ledger in self.ledgers],
            "layers": [_layer_json(layer) for layer in self.layers],
            "costs": self.costs,
            "missing": self.missing,
        }


def _outline(trial: TrialReadings, name: str) -> dict[str, Any]:
    reading, strategy = trial.readings[name], strategy_of(name)
    return {
        "strategy": name,
        "peak_bytes": reading.peak_bytes,
        "method": reading.method,
        "error": asdict(reading.error),
        "counts": strategy.counts if strategy else None,
        "blind_to": strategy.blind_to if strategy else None,
        "missing": reading.missing,
    }


def _layer_json(layer: LayerLedgers) -> dict[str, Any]:
    names = ("before_bytes", "peak_bytes", "after_bytes")
    return {
        "phase": layer.key.phase,
        "network": layer.key.network,
        "layer": layer.key.layer,
        "name": layer.span.name,
        "strategies": {
            name: dict(zip(names, figures, strict=True)) for name, figures in layer.figures.items()
        },
        "ledgers": [ledger.to_json() for ledger in layer.ledgers],
    }


def reconcile_sweep(
    sweep: Sweep, trial: str | None = None, network: str | None = None
) -> list[Reconciliation]:
    """Reconcile each point that strategies looked at; one trial's, or one network's.

    Where no strategy has trials of its own, each workload's unlimited point is reconciled with
    what every trial measures.

    Raises:
        ResultsError: no such trial or network, or no trial that finished.
    """
    looked_at = {record.point for record in sweep.strategy_records}
    unlimited = {record.point for record in sweep.records if record.limits.label == "max"}
    chosen = [_point_of(sweep, trial)] if trial else sorted(looked_at or unlimited)
    timed = [_middle(sweep, point, trial) for point in chosen]
    records = [
        r
        for r in timed
        if r and network in (None, r.settings.get("network"), *r.settings.get("networks", ()))
    ]
    if not records:
        raise ResultsError(
            f"no finished trial of {network!r}" if network else "no trial finished",
            where=str(sweep.path),
            remedy=f"see what there is: edgebench show {sweep.path}",
        )
    reconciliations = []
    for record in records:
        looked, missing = _own_trials(sweep, record)
        chain = PointLedgers(read_trial(sweep, record), looked)
        costs = _costs(sweep, chain)
        whole, layers = tuple(chain.whole()), tuple(_layers(chain, network))
        reconciliations.append(Reconciliation(chain, whole, layers, costs, missing))
    return reconciliations


def _point_of(sweep: Sweep, trial: str) -> str:
    for record in (*sweep.records, *sweep.strategy_records):
        if record.trial == trial:
            return record.point
    raise ResultsError(
        f"no trial {trial!r} here",
        where=str(sweep.path),
        remedy=f"edgebench export {sweep.path} --frame trials",
    )


def _middle(sweep: Sweep, point: str, trial: str | None) -> TrialRecord | None:
    """Choose the timed trial asked for, else the finished one of the middle time."""
    named = [r for r in sweep.records if r.point == point and r.trial == trial]
    done = sorted(_finished(sweep, point), key=lambda r: r.wall_s or 0.0)
    return next(iter([*named, *done[len(done) // 2 :]]), None)


def _finished(sweep: Sweep, point: str) -> list[TrialRecord]:
    """List the point's trials that finished: fresh ones, else visits of walks.

    A visit is a part of its process's life, of which GNU time and the sampler tell nothing.
    """
    done = [r for r in sweep.records if r.point == point and r.outcome == "ok"]
    return [r for r in done if r.walk is None] or done


def _own_trials(
    sweep: Sweep, timed: TrialRecord
) -> tuple[dict[str, TrialReadings], dict[str, str]]:
    """Find the strategies' trials of a timed trial's point, and why there are not more."""
    trials: dict[str, TrialReadings] = {}
    limited = timed.limit_bytes is not None
    wanted = [one for one in with_own_trial().values() if one.tells_memory]
    missing = {}
    for strategy in wanted:
        if limited or not strategy.limited_only:
            why = strategy.unavailable()
            missing[strategy.name] = (
                f'no trial of its own: [memory] strategies = ["{strategy.name}"] in the scenario'
                + (f"; {why}" if why else "")
            )
    asked = [r for r in sweep.strategy_records if r.point == timed.point and r.strategy in missing]
    for record in asked:
        name, why = str(record.strategy), record.missing.get("reading") or record.reason
        missing.pop(name, None)
        try:
            trials[name] = read_trial(sweep, record)
        except ResultsError as error:
            missing[name] = why or error.what
    return trials, missing


def _costs(sweep: Sweep, chain: PointLedgers) -> dict[str, float]:
    point = chain.timed.record.point
    known = [r.wall_s for r in _finished(sweep, point) if r.wall_s]
    if not known:
        return {}
    timed = statistics.median(known)
    return {
        name: trial.record.wall_s / timed
        for name, trial in chain.own.items()
        if trial.record.wall_s is not None and trial.record.outcome == "ok"
    }


def _layers(chain: PointLedgers, network: str | None) -> Iterator[LayerLedgers]:
    trials = [chain.timed, *chain.own.values()]
    for key, span in chain.timed.spans.items():
        wanted = key.layer is not None and key.phase in _LAYER_PHASES and key.round == 0
        if wanted and key.time == 0 and network in (None, key.network):
            yield LayerLedgers(key, span, _figures(trials, key), tuple(chain.of_span(key)))


def _figures(
    trials: Sequence[TrialReadings], key: SpanKey
) -> dict[str, tuple[int | None, int | None, int | None]]:
    figures: dict[str, tuple[int | None, int | None, int | None]] = {}
    for trial in trials:
        for name in trial.readings:
            reading = trial.span_reading(name, key)
            if reading is not None and name not in figures:
                figures[name] = (reading.before_bytes, reading.peak_bytes, reading.after_bytes)
    return figures
