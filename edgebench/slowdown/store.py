"""Fits as JSON in the sweep's folder: names, parameters and covariance, never pickled code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgebench.derived import file_stem, write_derived
from edgebench.records import SCHEMA
from edgebench.slowdown.data import Curve
from edgebench.slowdown.ladder import Climb, Step
from edgebench.slowdown.model import LEVEL, Fit, Parameter

FOLDER = "fits"


def climb_as_json(climb: Climb) -> dict[str, Any]:
    """All that is known of a curve's fits, as plain data."""
    curve = climb.curve
    return {
        "schema": SCHEMA,
        "network": curve.network,
        "phase": curve.phase,
        "settings": curve.settings,
        "data": {
            "fingerprint": fingerprint(curve),
            "limits_bytes": curve.limits.tolist(),
            "median_slowdowns": curve.medians.tolist(),
            "trials": len(curve.seconds),
            "unlimited_s": curve.unlimited_s,
            "demand_bytes": curve.demand_bytes,
            "repeat_noise": curve.noise,
            "lost_bytes": {outcome: list(at) for outcome, at in curve.lost_bytes.items()},
        },
        "interval_level": LEVEL,
        "recommended": climb.best.rung.name if climb.best else None,
        "rungs": [_step_as_json(step) for step in climb.steps],
    }


def save(results_path: Path, climbs: Sequence[Climb]) -> list[Path]:
    """Write one file a curve to ``fits/`` and return the paths.

    Raises:
        ResultsError: the folder can't be written.
    """
    folder = results_path / FOLDER
    return [
        write_derived(
            folder,
            f"{_name(climb.curve)}.json",
            (json.dumps(climb_as_json(climb), indent=1, allow_nan=False) + "\n").encode(),
        )
        for climb in climbs
    ]


def fingerprint(curve: Curve) -> str:
    """The same for the same times at the same limits, whatever else changes."""
    data = [curve.limit_bytes, curve.seconds, curve.unlimited_seconds]
    return hashlib.sha256(json.dumps([a.tolist() for a in data]).encode()).hexdigest()[:16]


def fit_from_json(data: dict[str, Any]) -> Fit:
    """One rung's fit back from its stored form."""
    covariance = data["covariance"]
    return Fit(
        **{key: data[key] for key in ("rung", "residual", "free", "aic", "note")},
        parameters=tuple(Parameter(**parameter) for parameter in data["parameters"]),
        covariance=tuple(map(tuple, covariance)) if covariance is not None else None,
    )


def _step_as_json(step: Step) -> dict[str, Any]:
    return {
        "rung": step.rung.name,
        "says": step.rung.says,
        "reason": step.reason,
        "fit": asdict(step.fit) if step.fit else None,
        "leave_one_limit_out": asdict(step.errors) if step.errors else None,
        "held_out": [asdict(one) | {"error": one.error} for one in step.held_out],
    }


def _name(curve: Curve) -> str:
    told = ("schedule", "loader", "batch")
    words = [curve.settings[key] for key in told if key in curve.settings]
    # Settings that are not in the name tell curves apart by their hash.
    rest = json.dumps(curve.settings, sort_keys=True, default=str).encode()
    return file_stem(curve.network, *words, curve.phase, hashlib.sha256(rest).hexdigest()[:6])
