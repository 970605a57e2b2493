"""Sweeps of any shape, with slowdowns known in advance, written by the real writer."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from edgebench.records import LimitSetting, SamplerReport, TrialRecord
from edgebench.results.folder import ResultsFolder
from edgebench.spans import events_to_phases
from edgebench.text import AS_IS
from tests.made_records import MIB, EventLog, packed_samples

#: How much more a phase suffers than the sweep's ``a`` says.
SUFFERS = {"load": 1.0, "first": 0.4, "execute": 0.25}


@dataclass(frozen=True)
class Shape:
    """What sweep to make. Slowdown of loading is ``1 + a·(ln(demand/M))^b``, times the noise."""

    networks: dict[str, int] = field(default_factory=lambda: {"alexnet": 8})
    schedules: Sequence[str] = ("linear",)
    limits: Sequence[float | None] = (None, 150, 100, 75, 50)
    pipeline: bool = False
    repeats: int = 3
    rounds: int = 2
    warm: int = 0
    demand: float = 200.0
    library: float | None = None
    a: float = 2.0
    b: float = 1.5
    noise: float = 0.02
    killed_below: float = 0.0
    swap_bytes: int = 2048 * MIB
    storage: str = AS_IS
    with_files: bool = True
    command: str | None = None
    loader: str = "copy"


def make(root: Path, shape: Shape, device: str = "jetson-nano") -> Path:
    chance = random.Random(7)
    loads = [list(shape.networks)] if shape.pipeline else [[name] for name in shape.networks]
    environment = {"device": device, "edgebench": "0.1.0", "git": {"commit": "0123456789abcdef"}}
    resolved = {"fingerprint": "f00d", "points": [], "plan": []}
    trials = [*product(range(shape.repeats), loads, shape.schedules, shape.limits)]
    with ResultsFolder.create(
        root, device, "made", 'name = "made"\n', resolved, environment, _tables(shape)
    ) as folder:
        for number, (repeat, networks, schedule, limit) in enumerate(trials, start=1):
            load = _Load(shape, networks, schedule, limit)
            _write(folder, load, f"{number:04d}", repeat, load.events(chance))
        folder.finish({"trials": len(trials)})
        return folder.path


def slowdown(shape: Shape, limit: float | None, phase: str = "load") -> float:
    if limit is None or limit >= shape.demand:
        return 1.0
    return 1 + SUFFERS[phase] * shape.a * log(shape.demand / limit) ** shape.b


def layer_bytes(order: int, layers: int) -> int:
    """Layers grow, but each fifth has no parameters."""
    return 0 if order % 5 == 4 else int(2000 * 1.5 ** (20 * order / layers) * (1 + order % 3))


def _tables(shape: Shape) -> dict[str, Any]:
    networks: dict[str, Any] = {}
    for name, layers in shape.networks.items():
        sizes = [layer_bytes(order, layers) for order in range(layers)]
        networks[name] = {
            "parameter_bytes": sum(sizes),
            "file_bytes": sum(sizes) + 64 * layers,
            "table": [
                {
                    "order": order,
                    "name": f"features.{order}.conv",
                    "type": "Conv2d" if size else "ReLU",
                    "parameter_bytes": size,
                    "buffer_bytes": 0,
                    "output_bytes": 5000,
                    "flops": 1000 * size,
                    "file_bytes": size + 64 if size else None,
                    "part": f"features.{order}.conv",
                }
                for order, size in enumerate(sizes)
            ],
        }
    return {"networks": networks}


@dataclass(frozen=True)
class _Load:
    """What one trial runs."""

    shape: Shape
    networks: list[str]
    schedule: str
    limit: float | None

    @property
    def killed(self) -> bool:
        return self.limit is not None and self.limit < self.shape.killed_below

    @property
    def settings(self) -> dict[str, Any]:
        if self.shape.command:
            return {"kind": "command", "command": self.shape.command.split()}
        about = {"networks": self.networks, "schedule": self.schedule, "loader": self.shape.loader}
        return {"kind": "inference", **about, "batch": 1}

    def events(self, chance: random.Random) -> list[dict[str, Any]]:
        clock = EventLog()
        for phase, seconds in (("import", 0.4), ("init", 0.05)):
            clock.end(clock.start(phase), seconds)
        for number in range(1 if self.killed else self.shape.rounds):
            whole = clock.start("round", round=number)
            for name in self.networks:
                self._run(name, number, clock, chance)
            if self.killed:
                clock.start("load", round=number, network=self.networks[0], layer=1)
                break
            clock.end(whole, 0.0)
        return clock.events

    def _run(self, name: str, number: int, clock: EventLog, chance: random.Random) -> None:
        layers = self.shape.networks[name]
        extra = 1 + 0.3 * list(self.shape.schedules).index(self.schedule)
        phases = ["load", "first", *["execute"] * self.shape.warm]
        calls = [(phase, layer) for layer in range(layers) for phase in phases]
        if self.schedule == "bulk":
            calls = [(phase, layer) for phase in phases for layer in range(layers)]
        for phase, layer in calls:
            size = layer_bytes(layer, layers)
            seconds = 2e-4 + size / 4e8 if phase == "load" else 8e-4 + size / 2e9
            seconds *= 1 + extra * (slowdown(self.shape, self.limit, phase) - 1)
            seconds *= chance.lognormvariate(0, self.shape.noise)
            place = {"network": name, "layer": layer, "name": f"features.{layer}.conv"}
            clock.end(clock.start(phase, round=number, **place), seconds)


def _write(
    folder: ResultsFolder, load: _Load, trial: str, repeat: int, events: list[dict[str, Any]]
) -> None:
    shape, limit = load.shape, load.limit
    label = "max" if limit is None else f"{limit:g}M"
    limit_bytes = None if limit is None else int(limit * MIB)
    peak = int((shape.demand if limit is None else min(limit, shape.demand)) * MIB)
    record = TrialRecord(
        trial=trial,
        point=f"{'-'.join(load.networks)}-{load.schedule}-{label}",
        block=repeat,
        repeat=repeat,
        settings=load.settings,
        limits=LimitSetting(label, limit_bytes, "file", shape.swap_bytes, storage=shape.storage),
        outcome="oom-killed" if load.killed else "ok",
        started_utc="2026-01-02T03:04:05.678+00:00",
        reason="killed in load" if load.killed else None,
        wall_s=(events[-1]["t_ns"] - events[0]["t_ns"]) / 1e9,
        limit_bytes=limit_bytes,
        peak_bytes=peak,
        peak_source="kernel",
        saturated=limit is not None and limit < shape.demand,
        sampled_peak_bytes=int(peak * 0.98),
        demand_bytes=int(shape.demand * MIB) if limit is None else None,
        library_bytes=int(shape.library * MIB) if shape.library and limit is None else None,
        sampler=SamplerReport(0.001, 0.00101, 0.004, 900, 0.02, 9 * MIB),
        phases=[] if shape.command else events_to_phases(events),
    )
    if shape.with_files:
        lines = "".join(json.dumps(event) + "\n" for event in events)
        if not shape.command:
            folder.events_path(trial).write_bytes(gzip.compress(lines.encode(), 1))
        folder.samples_path(trial).write_bytes(_samples(events, peak, shape.demand * MIB))
    folder.append(record)


def _samples(events: list[dict[str, Any]], peak: int, demand: float) -> bytes:
    times = np.linspace(events[0]["t_ns"], events[-1]["t_ns"], 600).astype(np.int64)
    wanted = demand * (0.3 + 0.7 * abs(np.sin(np.linspace(0, 6, len(times)))) ** 0.5)
    usage = np.minimum(wanted, peak * 0.98)
    fast = np.zeros(
        len(times), [(n, "<i8") for n in ("t_ns", "usage_bytes", "swap_bytes", "cpu_ns")]
    )
    fast["t_ns"], fast["usage_bytes"], fast["swap_bytes"] = times, usage, wanted - usage
    stat = np.zeros(2, [("t_ns", "<i8"), ("anon_bytes", "<i8")])
    return packed_samples(fast, stat)
