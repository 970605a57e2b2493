"""Made-up sweeps for frozen numbers: small, always the same, written by the real writer."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

from msgspec import structs

from edgebench.records import LimitSetting, Outcome, PhaseSum, TrialRecord, WalkReport
from edgebench.text import MIB
from tests.analysis.study_results import record, write_sweep
from tests.made_sweep import Shape, make

#: MiB; None: no limit.
LIMITS = (None, 160, 120, 80, 50)
_DEMAND = 200
#: Phase → its part of a round.
_PASS = {"load": 0.5, "first": 0.3, "execute": 0.2}
_STEP = {"data": 0.1, "forward": 0.3, "backward": 0.4, "step": 0.2}
_INFERENCE = {"kind": "inference", "schedule": "bulk", "loader": "copy", "batch": 1}
_TRAINING = {
    "kind": "training",
    "framework": "pytorch",
    "network": "lenet",
    "data": "synthetic",
    "shape": "1x28x28",
    "optimizer": "sgd",
    "batch": 8,
    "precision": "float32",
    "trained": "all",
    "steps": 4,
}


def made_up(root: Path) -> dict[str, Path]:
    """Name → a sweep's folder below ``root``; of two devices, the folder of both."""
    shape = Shape({"alexnet": 5, "resnet18": 6}, ("bulk",), LIMITS, repeats=3, warm=1)
    found = {
        "kills": make(root / "kills", replace(shape, killed_below=90)),
        "slower": make(root / "slower", replace(shape, killed_below=60, a=2.8, demand=230.0)),
        "pipeline": make(root / "pipeline", replace(shape, pipeline=True)),
        "no-swap": _written(root / "no-swap", _trials(_INFERENCE, "alexnet", swap=False)),
        "engines": _written(
            root / "engines",
            [
                *_trials({**_INFERENCE, "engine": "torch"}, "lenet", chance=2),
                *_trials({**_INFERENCE, "engine": "onnxruntime"}, "lenet", slower=0.6, chance=3),
            ],
        ),
        "training": _written(root / "training", _trials(_TRAINING, "lenet", killed_below=60)),
        "command": _written(root / "command", _commands()),
        "walk": _written(root / "walk", _walks()),
    }
    for device, more in (("board-a", {}), ("board-b", {"a": 5.0, "demand": 260.0})):
        make(root / "devices", replace(shape, **more), device)
    return {**found, "devices": root / "devices"}


def _written(root: Path, records: Sequence[TrialRecord]) -> Path:
    numbered = [structs.replace(one, trial=f"{n:04d}") for n, one in enumerate(records, 1)]
    return write_sweep(root, numbered, {})


def _record(about: Mapping[str, Any]) -> TrialRecord:
    rest = dict(about)
    return record(0, rest.pop("settings"), **rest)


def _slowdown(limit: int | None, slower: float) -> float:
    return 1.0 if limit is None else 1 + slower * log(_DEMAND / limit) ** 1.5


def _trials(
    settings: Mapping[str, Any],
    network: str,
    *,
    swap: bool = True,
    slower: float = 1.0,
    killed_below: int = 0,
    chance: int = 1,
) -> list[TrialRecord]:
    """Three trials at each limit; without swap the kernel kills below the demand."""
    dice = random.Random(chance)
    trains = settings["kind"] == "training"
    names = {} if trains else {"networks": [network]}
    made = []
    for repeat in range(3):
        for limit in LIMITS:
            factor = _slowdown(limit, slower)
            killed = limit is not None and (not swap or limit < killed_below)
            outcome: Outcome = "oom-killed" if killed else "ok"
            rounds = [0.4 * factor * dice.lognormvariate(0, 0.02) for _ in range(4)]
            phases = [PhaseSum(-1, None, "import", 1.5)]
            phases += _phases(rounds, network, _STEP if trains else _PASS)
            about = {"block": repeat, "repeat": repeat, "outcome": outcome}
            made.append(
                _at(limit, {**settings, **names}, swap=swap)
                | about
                | {"wall_s": 2 + sum(rounds), "phases": [] if killed else phases}
            )
    return [_record(one) for one in made]


def _phases(
    rounds: Sequence[float], network: str, parts: Mapping[str, float]
) -> Iterator[PhaseSum]:
    for number, seconds in enumerate(rounds):
        for phase, share in parts.items():
            yield PhaseSum(number, network, phase, share * seconds)
        yield PhaseSum(number, None, "round", seconds)


def _at(limit: int | None, settings: Mapping[str, Any], *, swap: bool = True) -> dict[str, Any]:
    """What a trial at this limit has in common with others there."""
    label = "max" if limit is None else f"{limit}M"
    size = None if limit is None else limit * MIB
    kind, swap_bytes = ("file", 2048 * MIB) if swap else ("none", None)
    peak = _DEMAND if limit is None else min(limit, _DEMAND)
    name = str(settings.get("engine", ""))
    return {
        "settings": dict(settings),
        "point": f"p{name}{label}",
        "limits": LimitSetting(label, size, kind, swap_bytes),
        "limit_bytes": size,
        "peak_bytes": peak * MIB,
        "peak_source": "kernel",
        "saturated": limit is not None,
        "demand_bytes": _DEMAND * MIB if limit is None else None,
    }


def _commands() -> list[TrialRecord]:
    """A program that prints a rate."""
    settings = {"kind": "command", "command": ["serve", "--model", "small"]}
    settings |= {"throughput_pattern": "([0-9.]+) tokens/s", "throughput_unit": "tokens"}
    made = []
    for repeat in range(3):
        for limit in LIMITS:
            factor = _slowdown(limit, 0.8) * (1 + 0.01 * repeat)
            about = {"block": repeat, "repeat": repeat, "wall_s": 3 * factor}
            made.append(_at(limit, settings) | about | {"throughput_per_s": 40 / factor})
    return [_record(one) for one in made]


def _walks() -> list[TrialRecord]:
    """One process whose limit goes down and up again; its rounds are slower on the way up."""
    settings, dice, made = {**_INFERENCE, "networks": ["lenet"]}, random.Random(4), []
    down = [(limit, "down") for limit in LIMITS]
    up = [(limit, "up") for limit in reversed(LIMITS[:-1])]
    for step, (limit, direction) in enumerate([*down, *up]):
        factor = _slowdown(limit, 1.0 if direction == "down" else 1.3)
        rounds = [0.4 * factor * dice.lognormvariate(0, 0.01) for _ in range(6)]
        about = {"direction": direction, "walk": WalkReport("0001", step, rounds, 0.4)}
        phases = [*_phases(rounds, "lenet", _PASS)]
        made.append(_at(limit, settings) | about | {"phases": phases, "wall_s": sum(rounds)})
    return [_record(one) for one in made]
