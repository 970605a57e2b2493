"""Reconciles a sweep: the trials of each point, their ledgers and layers."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from edgebench.analysis.ledgers import PointLedgers
from edgebench.errors import ResultsError
from edgebench.measures.ledger import Ledger
from edgebench.measures.strategies import strategy_of, with_own_trial
from edgebench.records import TrialRecord
from edgebench.results.frames import SpanKey, TrialReadings, read_trial
from edgebench.results.sweep_reader import Sweep
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
        readings = [
            {
                "trial": trial.record.trial,
                "strategy": name,
                "peak_bytes": reading.peak_bytes,
                "method": reading.method,
                "error": asdict(reading.error),
                "counts": strategy.counts if strategy else None,
                "blind_to": strategy.blind_to if strategy else None,
                "missing": reading.missing,
            }
            for trial in (self.chain.timed, *self.chain.own.values())
            for name, reading in trial.readings.items()
            for strategy in [strategy_of(name)]
        ]
        sizes = ("before_bytes", "peak_bytes", "after_bytes")
        layers = [
            {
                "phase": layer.key.phase,
                "network": layer.key.network,
                "layer": layer.key.layer,
                "name": layer.span.name,
                "strategies": {
                    name: dict(zip(sizes, figures, strict=True))
                    for name, figures in layer.figures.items()
                },
                "ledgers": [ledger.to_json() for ledger in layer.ledgers],
            }
            for layer in self.layers
        ]
        return {
            "trial": self.record.trial,
            "point": self.record.point,
            "settings": self.record.settings,
            "limit_bytes": self.record.limit_bytes,
            "readings": readings,
            "ledgers": [ledger.to_json() for ledger in self.ledgers],
            "layers": layers,
            "costs": self.costs,
            "missing": self.missing,
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
    chosen = sorted(looked_at or unlimited)
    if trial:
        every = (*sweep.records, *sweep.strategy_records)
        chosen = [record.point for record in every if record.trial == trial][:1]
        if not chosen:
            raise ResultsError(
                f"no trial {trial!r} here",
                where=str(sweep.path),
                remedy=f"edgebench export {sweep.path} --frame trials",
            )
    records = []
    for point in chosen:
        # The timed trial asked for, else the finished one of the middle time.
        named = [r for r in sweep.records if r.point == point and r.trial == trial]
        done = sorted(_finished(sweep, point), key=lambda r: r.wall_s or 0.0)
        for r in [*named, *done[len(done) // 2 :]][:1]:
            if network in (None, r.settings.get("network"), *r.settings.get("networks", ())):
                records.append(r)
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
        times = [r.wall_s for r in _finished(sweep, record.point) if r.wall_s]
        costs = {
            name: own.record.wall_s / statistics.median(times)
            for name, own in chain.own.items()
            if times and own.record.wall_s is not None and own.record.outcome == "ok"
        }
        whole, layers = tuple(chain.whole()), tuple(_layers(chain, network))
        reconciliations.append(Reconciliation(chain, whole, layers, costs, missing))
    return reconciliations


def _finished(sweep: Sweep, point: str) -> list[TrialRecord]:
    """List the point's trials that finished: fresh ones, else visits of walks.

    A visit is a part of its process's life, of which GNU time and the sampler tell nothing.
    """
    done = [r for r in sweep.records if r.point == point and r.outcome == "ok"]
    return [r for r in done if r.walk is None] or done


def _own_trials(
    sweep: Sweep, timed: TrialRecord
) -> tuple[dict[str, TrialReadings], dict[str, str]]:
    trials: dict[str, TrialReadings] = {}
    missing = {}
    limited = timed.limit_bytes is not None
    for strategy in with_own_trial().values():
        if strategy.tells_memory and (limited or not strategy.limited_only):
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


def _layers(chain: PointLedgers, network: str | None) -> Iterator[LayerLedgers]:
    trials = [chain.timed, *chain.own.values()]
    for key, span in chain.timed.spans.items():
        wanted = key.layer is not None and key.phase in _LAYER_PHASES and key.round == 0
        if not wanted or key.time != 0 or network not in (None, key.network):
            continue
        figures: dict[str, tuple[int | None, int | None, int | None]] = {}
        for trial in trials:
            for name in trial.readings:
                if name not in figures and (reading := trial.span_reading(name, key)):
                    sizes = reading.before_bytes, reading.peak_bytes, reading.after_bytes
                    figures[name] = sizes
        yield LayerLedgers(key, span, figures, tuple(chain.of_span(key)))
