"""Predictions for a device on which nothing was run: from its constants, or a board's storage.

Times without a limit are those of the device that was measured. What a limit adds is simulated at
the other device's constants. The interval is that of this model's errors on the measured device,
made wider by :data:`WIDER`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.boards.board import Board, board_from_file, find_board
from edgebench.errors import ResultsError, UsageError
from edgebench.safe_reading import read_file
from edgebench.slowdown.calibration.device import Calibration, Constant
from edgebench.slowdown.context import CannotPredictError, DeviceData, unsimulated_words
from edgebench.slowdown.curves import Curve, by_engine
from edgebench.slowdown.models.base import Parameter, all_models
from edgebench.slowdown.models.conformal import REACH, UNRUN_REACH
from edgebench.slowdown.models.device_costs import prior_costs, with_costs
from edgebench.slowdown.models.fitted import FittedModel, WorkloadModel

if TYPE_CHECKING:
    from edgebench.boards.storage import StorageSpeed

#: The model that needs no trials of the device it predicts for.
_MODEL = "simulated"
#: An interval's reach (a logarithm) for another device, as a multiple of that for the measured one.
WIDER = 2.0
_CALIBRATE = "measure the constants first: edgebench calibrate"


@dataclass(frozen=True)
class OtherDevice:
    """What is known of a device without trials.

    Args:
        name: the board's or the calibrated device's.
        calibration: its constants; those that a board's file doesn't tell are the measured
            device's.
        memory: the limit that it sets, as ``3800M``; None: unknown.
        says: where its constants are from, a sentence each.
    """

    name: str
    calibration: Calibration
    memory: str | None
    says: tuple[str, ...]


def device_of_board(name: str, here: Calibration | None) -> OtherDevice:
    """The device of a board's name or file.

    Raises:
        UsageError: no such board.
        ResultsError: the measured device was not calibrated.
    """
    board = find_board(name)
    if here is None:
        what = f"constants that the file of {board.title} doesn't have are unknown here"
        raise ResultsError(what, remedy=_CALIBRATE)
    if board.constants:
        return _measured_board(board, here)
    speed, zram = board.speed, here.swap_kind == "zram"
    constants = _of_storage(here, speed, files_only=zram)
    # What a declared speed holds here is not the board's.
    made = replace(here, device=board.name, held=None, **constants)
    says = (
        f"{board.title}, on which nothing was run: its storage as {speed.label}, everything else "
        f"(CPU, runtime, page replacement{', zram' if zram else ''}) as on {here.device}",
        *_common(here),
    )
    return OtherDevice(board.name, made, board.memory_label, says)


def device_of_file(path: Path, here: Calibration | None) -> OtherDevice:
    """The device of a calibration's file, or of a board's file.

    Raises:
        ResultsError: neither; or damaged.
        UsageError: a board's file with a fault.
    """
    if path.suffix == ".toml":
        board_from_file(path)
        return device_of_board(str(path), here)
    try:
        data = json.loads(read_file(path))
    except OSError as error:
        what = f"the constants can't be read: {error.strerror}"
        raise ResultsError(what, where=str(path), remedy="name a calibration-….json") from None
    except ValueError:
        data = None
    if not isinstance(data, dict):
        what = "no constants: no JSON"
        raise ResultsError(what, where=str(path), remedy="name a calibration-….json")
    made = Calibration.from_json(data, str(path))
    says = f"{made.device}, on which no network was run: constants of {path.name}"
    kernel = unsimulated_words(made.device, [made.environment])
    return OtherDevice(made.device, made, None, (says, *_common(here), *kernel))


def _common(here: Calibration | None) -> tuple[str, ...]:
    times = f"those of {here.device}" if here else "those of the measured device"
    return (
        f"times without a limit are {times}, so a slower CPU is slowed by smaller factors",
        f"intervals are {WIDER:g} times as wide (in logarithms) as for the measured device; that "
        "was tried on one other machine alone",
    )


def _measured_board(board: Board, here: Calibration) -> OtherDevice:
    """A board whose file has constants that were measured on it."""
    assert board.constants is not None
    names = {f.name for f in fields(here) if "Constant" in str(f.type)}
    if unknown := sorted(board.constants.keys() - names):
        known = ", ".join(sorted(names))
        what = f"no constant {unknown[0]!r}"
        raise UsageError(what, where=f"the file of {board.name}", remedy=f"use some of {known}")
    found: dict[str, Any] = {
        name: _as_constant(getattr(here, name), float(value))
        for name, value in board.constants.items()
    }
    made = replace(here, device=board.name, held=None, **found)
    says = f"{board.title}: {len(found)} constants measured on one, the others as on {here.device}"
    return OtherDevice(board.name, made, board.memory_label, (says, *_common(here)))


def _of_storage(here: Calibration, speed: StorageSpeed, *, files_only: bool) -> dict[str, Any]:
    """The constants that a storage's speed decides."""
    found: dict[str, Any] = {}
    if speed.read_bps:
        for name in ("file_read_bytes_per_s", "file_fault_bytes_per_s"):
            found[name] = _as_constant(getattr(here, name), speed.read_bps)
        if here.swap_in_bytes_per_s and not files_only:
            found["swap_in_bytes_per_s"] = _as_constant(here.swap_in_bytes_per_s, speed.read_bps)
    if speed.write_bps and here.swap_out_bytes_per_s and not files_only:
        found["swap_out_bytes_per_s"] = _as_constant(here.swap_out_bytes_per_s, speed.write_bps)
    if speed.read_iops and not files_only:
        found["fault_s"] = _as_constant(here.fault_s, 1 / speed.read_iops)
    return found


def _as_constant(like: Constant | None, value: float) -> Constant:
    return Constant(value, value, value, like.unit if like else "", 1)


class TransferredModels:
    """The simulator, with its errors on the measured device, at another device's constants."""

    def __init__(self, here: DeviceData, there: DeviceData) -> None:
        self._model = next(model for model in all_models() if model.name == _MODEL)
        self._here, self._there = here, there

    def for_workload(self, curves: Sequence[Curve], name: str) -> WorkloadModel:
        """The model for a workload's curves.

        Raises:
            ResultsError: it can't predict them, with the reason.
        """
        same = by_engine(self._here.curves).get(curves[0].engine, [])
        try:
            fit = self._model.fit(same, self._here.context)
        except CannotPredictError as error:
            raise ResultsError(f"{name} can't be predicted: {error}", remedy=_CALIBRATE) from None
        # What trials here show of costs is not the other device's.
        fit = with_costs(fit, prior_costs(curves, self._there.context))
        wide = tuple(_wider(parameter) for parameter in fit.parameters)
        fitted = FittedModel(self._model, replace(fit, parameters=wide), self._there.context)
        if reason := fitted.reason_against(curves):
            raise ResultsError(f"{name} can't be predicted: {reason}", remedy=_CALIBRATE)
        return WorkloadModel({curve.key: fitted for curve in curves})


def _wider(parameter: Parameter) -> Parameter:
    if parameter.name not in (REACH, UNRUN_REACH):
        return parameter
    return replace(parameter, value=parameter.value * WIDER)


def data_of(here: DeviceData, device: OtherDevice) -> DeviceData:
    """What is known of the other device: the curves' unlimited times, and its constants."""
    named = {"device": device.name, "swap_kind": device.calibration.swap_kind}
    curves = tuple(
        replace(curve.unseen(), settings={**curve.settings, **named}) for curve in here.curves
    )
    context = replace(here.context, calibration=device.calibration)
    return DeviceData(device.name, device.calibration.swap_kind, curves, context)
