"""Fits as JSON in the folder of the sweep, for other programs: curves, their points and errors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from edgebench.results.derived import file_stem, write_derived
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.models.base import LEVEL, MODEL_SCHEMA
from edgebench.slowdown.models.fitting import CurveFits, ModelFit
from edgebench.slowdown.models.interpolated import INTERPOLATED, Interpolated

FOLDER = "fits"
_FORMULAS = {
    INTERPOLATED: "ln S a monotone cubic in ln M through what was measured",
}


def fingerprint(curve: Curve) -> str:
    """The same for the same times at the same limits, whatever else changes."""
    data = [a.tolist() for a in (curve.limit_bytes, curve.seconds, curve.unlimited_seconds)]
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()[:16]


def curve_fits_as_json(found: CurveFits) -> dict[str, Any]:
    """A curve's fits, as plain data."""
    curve = found.curve
    return {
        "schema": MODEL_SCHEMA,
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
        "recommended": found.best.model if found.best else None,
        "models": [_model_fit_as_json(one) for one in found.fits],
    }


def _model_fit_as_json(found: ModelFit) -> dict[str, Any]:
    return {
        "model": found.model,
        "formula": _FORMULAS[found.model],
        "reason": found.reason,
        "fit": _points_as_json(found.fitted) if isinstance(found.fitted, Interpolated) else None,
        "leave_one_limit_out": asdict(found.errors) if found.errors else None,
        "held_out": [asdict(one) | {"error": one.error} for one in found.held_out],
    }


def _points_as_json(found: Interpolated) -> dict[str, Any]:
    limits, slowdowns = map(np.exp, found.points)
    points = {"limits_bytes": limits.round().tolist(), "slowdowns": slowdowns.tolist()}
    return {**points, "noise": found.noise, "reach": found.reach}


def save_fits(results_path: Path, curves: Sequence[CurveFits]) -> list[Path]:
    """Write a file a curve to ``fits/``; return the paths.

    Raises:
        ResultsError: the folder can't be written.
    """
    files = {_name(one.curve): curve_fits_as_json(one) for one in curves}
    return [
        write_derived(
            results_path / FOLDER,
            f"{name}.json",
            (json.dumps(data, indent=1, allow_nan=False) + "\n").encode(),
        )
        for name, data in files.items()
    ]


def _name(curve: Curve) -> str:
    named = ("schedule", "loader", "batch")
    words = [curve.settings[key] for key in named if key in curve.settings]
    # A hash tells curves apart that differ in other settings.
    rest = json.dumps(curve.settings, sort_keys=True, default=str).encode()
    return file_stem(curve.network, *words, curve.phase, hashlib.sha256(rest).hexdigest()[:6])
