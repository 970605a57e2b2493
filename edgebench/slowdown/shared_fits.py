"""Fits of models to many curves at once, as JSON: one of each model and engine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from edgebench.slowdown.curves import Curve
from edgebench.slowdown.models.base import MODEL_SCHEMA
from edgebench.slowdown.models.fitting import CurveFits
from edgebench.workloads.engines.registry import TORCH

#: How their files begin.
SHARED = "all-curves-"


def shared_fits_as_json(curves: Sequence[CurveFits]) -> list[dict[str, Any]]:
    """The fits to all curves of an engine at once, each with a fingerprint of the curves."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for curve, one in ((each.curve, fit) for each in curves for fit in each.fits):
        name, engine = one.model.name, curve.engine
        if one.fit and not one.model.per_curve and (name, engine) not in found:
            about = {"schema": MODEL_SCHEMA, "model": name, "formula": one.model.formula}
            data = _about([one.curve for one in curves if one.curve.engine == engine])
            about["engine"] = engine
            found[name, engine] = {**about, "data": data, "fit": asdict(one.fit)}
    return list(found.values())


def _about(curves: Sequence[Curve]) -> dict[str, Any]:
    keys = [[one.key, fingerprint(one)] for one in sorted(curves, key=lambda one: one.key)]
    return {"fingerprint": _digest(keys), "curves": len(curves)}


def shared_name(model: str, engine: str) -> str:
    """The name of a model's file; that of torch has no engine in it."""
    return f"{SHARED}{model}{'' if engine == TORCH else f'-{engine}'}"


def fingerprint(curve: Curve) -> str:
    """The same for the same times at the same limits, whatever else changes."""
    data = [curve.limit_bytes, curve.seconds, curve.unlimited_seconds]
    return _digest([a.tolist() for a in data])


def _digest(data: object) -> str:
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()[:16]
