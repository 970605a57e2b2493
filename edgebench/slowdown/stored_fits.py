"""Fits as JSON in the folder of the sweep, and predictions from these files alone.

A file holds names, parameters and covariance, never pickled code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from edgebench.errors import ResultsError
from edgebench.results.derived import file_stem, write_derived
from edgebench.safe_reading import read_file
from edgebench.slowdown.answer import measured_by_curves
from edgebench.slowdown.context import Context, DeviceData
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.models.base import LEVEL, MODEL_SCHEMA, Fit, Parameter
from edgebench.slowdown.models.fitted import WorkloadModel
from edgebench.slowdown.models.fitting import CurveFits, ModelFit
from edgebench.slowdown.models.interpolated import INTERPOLATED, Interpolated
from edgebench.slowdown.models.simulated import SIMULATED

#: How the files of models of many curves began, which were written until schema 3.
_SHARED = "all-curves-"
FOLDER = "fits"
_FORMULAS = {
    INTERPOLATED: "ln S a monotone cubic in ln M through what was measured",
    SIMULATED: "S = 1 + what a limit moves, simulated, at calibrated costs / T",
}
#: Keys of schema 1, and what they are called now.
_RENAMED = {"rungs": "models", "rung": "model", "says": "formula"}
_Found = TypeVar("_Found")


def fingerprint(curve: Curve) -> str:
    """The same for the same times at the same limits, whatever else changes."""
    data = [curve.limit_bytes, curve.seconds, curve.unlimited_seconds]
    return _digest([a.tolist() for a in data])


def _digest(data: object) -> str:
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
    fit = found.fitted.fit if isinstance(found.fitted, Interpolated) else None
    return {
        "model": found.model,
        "formula": _FORMULAS[found.model],
        "reason": found.reason,
        "fit": asdict(fit) if fit else None,
        "leave_one_limit_out": asdict(found.errors) if found.errors else None,
        "held_out": [asdict(one) | {"error": one.error} for one in found.held_out],
    }


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


def is_stored(path: Path) -> bool:
    """Whether this is a fit's file, or a folder of them."""
    return path.suffix == ".json" or path.name == FOLDER


class StoredFits:
    """The fits of ``fits/``: the models of single curves, and the data that they were fitted to."""

    def __init__(self, path: Path) -> None:
        """Read a fit's file, or all in a folder.

        Raises:
            ResultsError: none there, damaged, or written by a newer version.
        """
        files = [path] if path.suffix == ".json" else sorted(path.glob("*.json"))
        files = [file for file in files if not file.name.startswith(_SHARED)]
        if not files:
            raise ResultsError("no fits here", where=str(path), remedy="edgebench fit")
        pairs = [_read(file, _curve_and_model) for file in files]
        self._own = {curve.key: fitted for curve, fitted in pairs}
        groups: dict[str, list[Curve]] = {}
        for curve, _ in pairs:
            groups.setdefault(curve.workload, []).append(curve)
        #: What was measured, as far as the fits tell.
        self.measured = {
            (str(own[0].settings.get("sweep")), workload): measured_by_curves(own)
            for workload, own in groups.items()
        }
        curves = tuple(curve for curve, _ in pairs)
        about = curves[0].settings
        self.data = DeviceData(
            str(about.get("device")), str(about.get("swap_kind", "none")), curves, Context({})
        )

    def for_workload(self, curves: Sequence[Curve], name: str) -> WorkloadModel:
        """The model for a workload's curves.

        Raises:
            ResultsError: one of them was not fitted.
        """
        if any(curve.key not in self._own for curve in curves):
            raise ResultsError(
                f"no fit of {name}, and fits of others can't predict it",
                remedy="name the results folder instead of its fits",
            )
        return WorkloadModel({curve.key: self._own[curve.key] for curve in curves})


def _read(file: Path, convert: Callable[[Mapping[str, Any]], _Found]) -> _Found:
    try:
        data = json.loads(read_file(file))
        if data["schema"] > MODEL_SCHEMA:
            raise ResultsError(
                f"{file.name} has schema {data['schema']}; "
                f"this edgebench reads up to {MODEL_SCHEMA}",
                where=str(file),
                remedy="read it with the edgebench that made it, or fit again: edgebench fit",
            )
        return convert(_renamed(data))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ResultsError(
            f"this fit can't be read: {_fault_of(error)}",
            where=str(file),
            remedy="fit again: edgebench fit",
        ) from None


def _renamed(data: Any) -> Any:
    """A file's data with the keys of schema 1 renamed; newer data stay the same."""
    if isinstance(data, list):
        return [_renamed(one) for one in data]
    if isinstance(data, dict):
        return {_RENAMED.get(key, key): _renamed(value) for key, value in data.items()}
    return data


def _fault_of(error: Exception) -> str:
    """What is wrong with a file, in words."""
    if isinstance(error, KeyError):
        return f"it has no {error.args[0]}"
    return str(error) if isinstance(error, OSError) else "it is damaged"


def _curve_and_model(data: Mapping[str, Any]) -> tuple[Curve, Interpolated]:
    """The curve, and the model of it; of fits of other models one through their medians."""
    curve = _curve(data)
    if not data["models"]:
        raise ValueError("no model was fitted")
    stored = next((one for one in data["models"] if one["model"] == INTERPOLATED), None)
    if stored is None or stored["fit"] is None:
        return curve, Interpolated.of(curve)
    return curve, Interpolated(fit_from_json(stored["fit"]))


def fit_from_json(data: Mapping[str, Any]) -> Fit:
    """A fit back from its stored form; what versions before this one kept besides is left out."""
    names = [field.name for field in fields(Parameter)]
    kept = ({name: one[name] for name in names} for one in data["parameters"])
    return Fit(data["model"], tuple(Parameter(**one) for one in kept))


def _curve(data: Mapping[str, Any]) -> Curve:
    """The curve as its medians, which is all that was stored of it."""
    about = data["data"]
    settings = data["settings"]
    limits, medians = (np.array(about[key]) for key in ("limits_bytes", "median_slowdowns"))
    unlimited = np.array([about["unlimited_s"]])
    return Curve(
        data["network"],
        data["phase"],
        settings,
        limits,
        medians * unlimited,
        unlimited,
        about["demand_bytes"],
        {outcome: tuple(at) for outcome, at in about["lost_bytes"].items()},
        # Its id is not stored; this is the same for the curves of one workload.
        workload=_digest([settings.get("pipeline") or data["network"], settings]),
    )
