"""Predictions from stored fits alone, where the trials are not at hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from edgebench.errors import ResultsError
from edgebench.records.records import SCHEMA
from edgebench.slowdown.data import Curve
from edgebench.slowdown.knowledge import Knowledge
from edgebench.slowdown.ladder import RUNGS
from edgebench.slowdown.model import Context, Rung
from edgebench.slowdown.pooled import Pooled
from edgebench.slowdown.splits import same_curve
from edgebench.slowdown.store import FOLDER, OF_SETS, fit_from_json
from edgebench.slowdown.voices import OwnFit, OwnVoice, SetVoice, Voice, nearest

#: Rungs by their names; each makes and reads its own fits.
_RUNGS: dict[str, Rung] = {rung.name: rung for rung in RUNGS}


def is_stored(path: Path) -> bool:
    """Whether this is a fit's file, or a folder of them."""
    return path.suffix == ".json" or path.name == FOLDER


class StoredFits:
    """The fits of ``fits/``, as knowledge and as voices."""

    def __init__(self, path: Path) -> None:
        """Read a fit's file, or all in a folder.

        Raises:
            ResultsError: none there, damaged, or written by a newer version.
        """
        files = [path] if path.suffix == ".json" else sorted(path.glob("*.json"))
        # Of rungs of sets `pooled` alone tells without layer tables and constants.
        pooled = [file for file in files if file.stem == OF_SETS + Pooled.name]
        files = [file for file in files if not file.name.startswith(OF_SETS)]
        if not files:
            raise ResultsError("no fits here", where=str(path), remedy="edgebench fit")
        self._own = [_read(file, _own_of) for file in files]
        self._sets = [_read(file, _pooled_of) for file in pooled]
        curves = tuple(own.curve for own in self._own)
        about = curves[0].settings
        self.knowledge = Knowledge(
            str(about.get("device")), str(about.get("swap_kind", "none")), curves, Context({})
        )

    def of(self, curves: Sequence[Curve], name: str) -> Voice:
        """The voice for a workload's curves.

        Raises:
            ResultsError: one of them was not fitted.
        """
        known = [own.curve for own in self._own]
        if any(same_curve(curve, known) is None for curve in curves):
            raise ResultsError(
                f"no fit of {name}, and fits of others say nothing of it",
                remedy="name the results themselves instead of their fits",
            )
        sets: list[Voice] = [voice for voice in self._sets if voice.can_tell(curves, [])]
        return nearest([*sets, OwnVoice(self._own)], curves)


_Found = TypeVar("_Found")


def _read(file: Path, as_what: Callable[[Mapping[str, Any]], _Found]) -> _Found:
    try:
        data = json.loads(file.read_bytes())
        if data["schema"] > SCHEMA:
            raise ResultsError(
                f"{file.name} has schema {data['schema']}; this edgebench reads up to {SCHEMA}",
                where=str(file),
                remedy="read it with the edgebench that made it, or fit anew: edgebench fit",
            )
        return as_what(data)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ResultsError(
            f"no fit that can be read: {_fault_of(error)}",
            where=str(file),
            remedy="fit anew: edgebench fit",
        ) from None


def _fault_of(error: Exception) -> str:
    """A damaged file, in words."""
    if isinstance(error, KeyError):
        return f"it has no {error.args[0]}"
    return str(error) if isinstance(error, OSError) else "it is damaged"


def _pooled_of(data: Mapping[str, Any]) -> SetVoice:
    return SetVoice(Pooled(), fit_from_json(data["fit"]), Context({}))


def _own_of(data: Mapping[str, Any]) -> OwnFit:
    """The fit nearest to limits left out of it; if none was judged, the highest there is."""
    fitted = [one for one in data["rungs"] if one["fit"] and one["rung"] in _RUNGS]
    judged = [one for one in fitted if one["leave_one_limit_out"]]
    found = min(judged, key=lambda one: _log_ratio(one) or 0.0) if judged else fitted[-1]
    rung = _RUNGS[found["rung"]]
    return OwnFit(_curve(data), rung, fit_from_json(found["fit"]), _log_ratio(found))


def _log_ratio(one: Mapping[str, Any]) -> float | None:
    errors = one["leave_one_limit_out"]
    return float(errors["log_ratio"]) if errors else None


def _curve(data: Mapping[str, Any]) -> Curve:
    """The curve as its medians, which is all that was stored of it."""
    about = data["data"]
    limits, medians = (np.array(about[key]) for key in ("limits_bytes", "median_slowdowns"))
    unlimited = np.array([about["unlimited_s"]])
    return Curve(
        data["network"],
        data["phase"],
        data["settings"],
        limits,
        medians * unlimited,
        unlimited,
        about["demand_bytes"],
        {outcome: tuple(at) for outcome, at in about["lost_bytes"].items()},
    )
