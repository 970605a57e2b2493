"""Sweeps of studies for the tests: real results folders with made-up trials."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from edgebench.records import AcceleratorReport, LimitSetting, PhaseSum, TrialRecord
from edgebench.results.folder import ResultsFolder
from tests import made_records
from tests.made_records import MIB


def write_sweep(folder: Path, records: list[TrialRecord], scenario: dict[str, Any]) -> Path:
    plan = [
        {"trial": r.trial, "point_id": r.point, "block": 0, "repeat": r.repeat} for r in records
    ]
    resolved = {"fingerprint": "0" * 64, "scenario": scenario, "points": [], "plan": plan}
    with ResultsFolder.create(
        folder, "board", "study", 'name = "study"\n', resolved, {}, {}
    ) as made:
        for record in records:
            made.append(record)
        made.finish({"trials": len(records), "outcomes": {"ok": len(records)}})
        return made.path


def record(number: int, settings: dict[str, Any], **more: Any) -> TrialRecord:
    base: dict[str, Any] = {"trial": f"{number:04d}", "point": f"p{number:03d}", "wall_s": 1.0}
    base |= {"settings": settings, "limits": LimitSetting()}
    base |= {"base_bytes": 100 * MIB, "demand_bytes": 200 * MIB}
    return made_records.record(**{**base, **more})


def convolution_records(repeats: int = 2) -> list[TrialRecord]:
    """Cost that is straight in the kernel's area up to 5 x 5 and three times as steep beyond."""
    chance, records = np.random.default_rng(1), []
    points = product(range(1, 10), (1, 2), (1, 2, 4, 8, 16), range(repeats))
    for number, (kernel, stack, batch, _) in enumerate(points, start=1):
        settings = {
            "kind": "convolution", "kernel": kernel, "stack": stack, "batch": batch,
            "backward": False, "channels": 32, "image": 64, "warm": 1, "passes": 4,
            "threads": None, "seed": 1,
        }  # fmt: skip
        cost_s = stack * 1e-3 * (1 + 0.1 * kernel**2 + 0.2 * max(0, kernel**2 - 25))
        times = cost_s * (1 + 1 / batch) * batch * np.exp(chance.normal(0, 0.01, 5))
        peak = {"peak_bytes": (100 + batch) * MIB}
        phases = [PhaseSum(n, None, "forward", float(t), **peak) for n, t in enumerate(times)]
        records.append(record(number, settings, phases=phases))
    return records


def search_records(rate_fools: float = 0.0) -> tuple[list[TrialRecord], dict[str, Any]]:
    """24 draws with and without a background: own memory by width, the system's with noise.

    ``rate_fools``: MiB that the system's mean seems to gain where the rate is low.
    """
    chance, records = np.random.default_rng(2), []
    for draw in range(24):
        rate = float(np.exp(chance.uniform(np.log(1e-4), np.log(0.1))))
        width = int(chance.integers(8, 512))
        for background in (0, 512 * MIB):
            own = 150 * MIB + width * MIB // 8 + int(chance.integers(0, MIB // 8))
            lifted = -rate_fools * MIB * np.log10(rate)
            mean = (
                3000 * MIB
                + own
                + lifted
                + chance.normal(0, 60 * MIB)
                + background * chance.random()
            )
            settings = {
                "kind": "training", "network": "mlp", "data": "digits", "draw": draw, "seed": 1,
                "learning_rate": rate, "width": width, "batch": 32, "optimizer": "sgd",
                "background_bytes": background, "trained": "all",
            }  # fmt: skip
            read = {"interval_s": 5.0, "samples": 3, "mean_bytes": float(mean)}
            notes = {"system_memory": [read]}
            records.append(record(len(records) + 1, settings, demand_bytes=own, notes=notes))
    axes = {
        "learning_rate": {"low": 1e-4, "high": 0.1, "scale": "log"},
        "width": {"low": 8, "high": 512, "scale": "linear"},
    }
    return records, {"search": {"draws": 24, "axes": axes}}


def partial_records() -> list[TrialRecord]:
    records, parts = [], (("all", 1.0), ("filters 40%", 0.7), ("last", 0.4))
    for (part, share), repeat in product(parts, (0, 1)):
        settings = {
            "kind": "training", "network": "lenet", "data": "digits", "start": "scratch",
            "batch": 32, "optimizer": "sgd", "trained": part, "seed": 1,
        }  # fmt: skip
        phases = [
            PhaseSum(step, "lenet", phase, 0.01 * share, peak_bytes=int((100 + 50 * share) * MIB))
            for step, phase in product(range(4), ("data", "forward", "backward", "step"))
        ]
        notes = {"held_bytes": {"gradients": int(share * 240_000)}}
        notes |= {"loss": 1.2, "test_accuracy": 0.8 + 0.01 * repeat}
        demand = (150 + int(50 * share)) * MIB
        more = {"phases": phases, "notes": notes, "demand_bytes": demand, "repeat": repeat}
        records.append(record(len(records) + 1, settings, **more))
    return records


def accelerator_records() -> list[TrialRecord]:
    """A training of five steps on an accelerator, half of whose `data` is copying; one beside."""
    settings = {"kind": "training", "network": "lenet", "batch": 16, "trained": "all"}
    phases = [
        PhaseSum(n, "lenet", phase, seconds * (5 if n == 0 else 1), peak_bytes=150 * MIB)
        for n in range(5)
        for phase, seconds in (("data", 0.002), ("forward", 0.01), ("round", 0.02))
    ]
    copies = [
        {"round": n, "network": "lenet", "phase": phase, "to_bytes": to_bytes, "to_s": to_s}
        | {"from_bytes": 0, "from_s": 0.0, "peak_allocated_bytes": peak}
        | {"peak_reserved_bytes": 2 * peak}
        for n in range(5)
        for phase, to_bytes, to_s, peak in (("data", MIB, 0.001, 0), ("forward", 0, 0.0, 32 * MIB))
    ]
    report = AcceleratorReport("cuda", peak_allocated_bytes=32 * MIB, phases=copies)
    return [
        record(1, {**settings, "accelerator": "cuda"}, phases=phases, accelerator=report),
        record(2, settings, phases=phases),
    ]
