"""Sweeps of studies for the tests: real results folders with made-up trials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from edgebench.records import AcceleratorReport, LimitSetting, PhaseSum, TrialRecord
from edgebench.results.folder import ResultsFolder

MIB = 1 << 20


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
    base: dict[str, Any] = {
        "trial": f"{number:04d}",
        "point": f"p{number:03d}",
        "block": 0,
        "repeat": 0,
        "settings": settings,
        "limits": LimitSetting(),
        "outcome": "ok",
        "started_utc": "2026-01-01T00:00:00.000+00:00",
        "wall_s": 1.0,
        "base_bytes": 100 * MIB,
        "demand_bytes": 200 * MIB,
    }
    return TrialRecord(**{**base, **more})


def convolution_records(repeats: int = 2) -> list[TrialRecord]:
    """Cost that is straight in the kernel's area up to 5 x 5 and three times as steep beyond."""
    chance, records = np.random.default_rng(1), []
    for kernel in (1, 2, 3, 4, 5, 6, 7, 8, 9):
        for stack in (1, 2):
            for batch in (1, 2, 4, 8, 16):
                area = kernel**2
                image_s = (
                    stack * 1e-3 * (1 + 0.1 * area + 0.2 * max(0, area - 25)) * (1 + 1 / batch)
                )
                for _ in range(repeats):
                    settings = {
                        "kind": "convolution", "kernel": kernel, "stack": stack, "batch": batch,
                        "backward": False, "channels": 32, "image": 64, "warm": 1, "passes": 4,
                        "threads": None, "seed": 1,
                    }  # fmt: skip
                    times = image_s * batch * np.exp(chance.normal(0, 0.01, 5))
                    phases = [
                        PhaseSum(n, None, "forward", float(t), peak_bytes=(100 + batch) * MIB)
                        for n, t in enumerate(times)
                    ]
                    records.append(record(len(records) + 1, settings, phases=phases))
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
    records = []
    for part, share in (("all", 1.0), ("filters 40%", 0.7), ("last", 0.4)):
        for repeat in range(2):
            settings = {
                "kind": "training", "network": "lenet", "data": "digits", "start": "scratch",
                "batch": 32, "optimizer": "sgd", "trained": part, "seed": 1,
            }  # fmt: skip
            phases = [
                PhaseSum(
                    step, "lenet", phase, 0.01 * share, peak_bytes=int((100 + 50 * share) * MIB)
                )
                for step in range(4)
                for phase in ("data", "forward", "backward", "step")
            ]
            notes = {
                "held_bytes": {"gradients": int(share * 240_000)},
                "loss": 1.2, "test_accuracy": 0.8 + 0.01 * repeat,
            }  # fmt: skip
            demand = (150 + int(50 * share)) * MIB
            more = {"phases": phases, "notes": notes, "demand_bytes": demand, "repeat": repeat}
            records.append(record(len(records) + 1, settings, **more))
    return records


def accelerator_records() -> list[TrialRecord]:
    """A training of five steps on an accelerator, half of whose `data` is copying; one beside."""
    made = []
    for number, accelerator in enumerate(("cuda", None), start=1):
        settings = {"kind": "training", "network": "lenet", "batch": 16, "trained": "all"}
        phases = [
            PhaseSum(n, "lenet", phase, seconds * (5 if n == 0 else 1), peak_bytes=150 * MIB)
            for n in range(5)
            for phase, seconds in (("data", 0.002), ("forward", 0.01), ("round", 0.02))
        ]
        told = None
        if accelerator:
            settings["accelerator"] = accelerator
            told = AcceleratorReport(
                accelerator,
                peak_allocated_bytes=32 * MIB,
                phases=[_copied(n, "data", 0.001, 0) for n in range(5)]
                + [_copied(n, "forward", 0.0, 32 * MIB) for n in range(5)],
            )
        more: dict[str, Any] = {"phases": phases, "accelerator": told}
        made.append(record(number, settings, **more))
    return made


def _copied(number: int, phase: str, to_s: float, peak_bytes: int) -> dict[str, Any]:
    return {
        "round": number,
        "network": "lenet",
        "phase": phase,
        "to_bytes": MIB if to_s else 0,
        "to_s": to_s,
        "from_bytes": 0,
        "from_s": 0.0,
        "peak_allocated_bytes": peak_bytes,
        "peak_reserved_bytes": 2 * peak_bytes,
    }
