"""Fits as JSON in the sweep's folder: names, parameters and covariance, never pickled code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgebench.records.records import SCHEMA
from edgebench.results.derived import file_stem, write_derived
from edgebench.slowdown.data import Curve
from edgebench.slowdown.ladder import Climb, SetStep, Step
from edgebench.slowdown.model import LEVEL, Fit, Parameter

FOLDER = "fits"
#: What the names of fits to sets of curves begin with.
OF_SETS = "all-curves-"


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
        "recommended": climb.recommended.rung.name if climb.recommended else None,
        "rungs": [_step_as_json(step) for step in climb.every],
    }


def sets_as_json(climbs: Sequence[Climb]) -> list[dict[str, Any]]:
    """The fits of rungs of sets, each with a fingerprint of all the curves it was fitted to."""
    curves = sorted(climbs, key=lambda climb: climb.curve.mark)
    marks = [[climb.curve.mark, fingerprint(climb.curve)] for climb in curves]
    data = {"fingerprint": _digest(marks), "curves": len(climbs)}
    found: dict[str, dict[str, Any]] = {}
    for climb in climbs:
        for step in climb.sets:
            if step.fit and step.rung.name not in found:
                about = {"schema": SCHEMA, "rung": step.rung.name, "says": step.rung.says}
                found[step.rung.name] = {**about, "data": data, "fit": asdict(step.fit)}
    return list(found.values())


def save(results_path: Path, climbs: Sequence[Climb]) -> list[Path]:
    """Write one file a curve, and one a rung of sets, to ``fits/`` and return the paths.

    Raises:
        ResultsError: the folder can't be written.
    """
    folder = results_path / FOLDER
    files = {_name(climb.curve): climb_as_json(climb) for climb in climbs}
    files |= {f"{OF_SETS}{fit['rung']}": fit for fit in sets_as_json(climbs)}
    return [
        write_derived(
            folder,
            f"{name}.json",
            (json.dumps(data, indent=1, allow_nan=False) + "\n").encode(),
        )
        for name, data in files.items()
    ]


def fingerprint(curve: Curve) -> str:
    """The same for the same times at the same limits, whatever else changes."""
    data = [curve.limit_bytes, curve.seconds, curve.unlimited_seconds]
    return _digest([a.tolist() for a in data])


def _digest(data: object) -> str:
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()[:16]


def fit_from_json(data: dict[str, Any]) -> Fit:
    """One rung's fit back from its stored form."""
    covariance = data["covariance"]
    return Fit(
        **{key: data[key] for key in ("rung", "residual", "free", "aic", "note")},
        parameters=tuple(Parameter(**parameter) for parameter in data["parameters"]),
        covariance=tuple(map(tuple, covariance)) if covariance is not None else None,
    )


def _step_as_json(step: Step | SetStep) -> dict[str, Any]:
    own = step.fit if isinstance(step, Step) else None
    elsewhere = f"{OF_SETS}{step.rung.name}.json" if step.fit and not own else None
    return {
        "rung": step.rung.name,
        "says": step.rung.says,
        "reason": step.reason,
        "fit": asdict(own) if own else None,
        "fit_file": elsewhere,
        "leave_one_limit_out": asdict(step.errors) if step.errors else None,
        "held_out": [asdict(one) | {"error": one.error} for one in step.held_out],
    }


def _name(curve: Curve) -> str:
    told = ("schedule", "loader", "batch")
    words = [curve.settings[key] for key in told if key in curve.settings]
    # Settings that are not in the name tell curves apart by their hash.
    rest = json.dumps(curve.settings, sort_keys=True, default=str).encode()
    return file_stem(curve.network, *words, curve.phase, hashlib.sha256(rest).hexdigest()[:6])
