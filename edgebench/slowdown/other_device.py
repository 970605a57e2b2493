"""Predictions for where nothing was run: another device's constants, or another storage.

Times without a limit are those of the device that was measured. What a limit adds to a steady round
follows from the bytes that its rounds were counted to read
(:mod:`~edgebench.slowdown.counted`), else from those that are simulated, at the other constants.
The interval is that of the same errors on the measured device, made wider by :data:`WIDER` unless
bytes were counted on the same device.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.boards.board import Board, board_from_file, find_board
from edgebench.errors import ResultsError, UsageError
from edgebench.safe_reading import read_file
from edgebench.slowdown.calibration.device import Calibration, Constant
from edgebench.slowdown.context import CannotPredictError, DeviceData, unsimulated_words
from edgebench.slowdown.counted import (
    CountedModel,
    counted_models,
    counted_rounds,
    storage_costs,
)
from edgebench.slowdown.curves import Curve, by_engine
from edgebench.slowdown.models.fitted import WorkloadModel
from edgebench.slowdown.models.simulated import Simulated, learn

if TYPE_CHECKING:
    from edgebench.boards.storage import StorageSpeed
    from edgebench.results.miss_curve import MissCurve

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
        where: what they are of, as ``constants of rock-5b-4g``.
    """

    name: str
    calibration: Calibration
    memory: str | None
    says: tuple[str, ...]
    where: str


def device_of_storage(here: DeviceData, storage: StorageSpeed) -> OtherDevice:
    """The measured device with its storage held to another speed.

    Raises:
        ResultsError: it was not calibrated, and no trial tells the runtime's footprint.
        MachineError: requests are held, and how many bytes one has was not measured.
    """
    known = here.context.calibration or here.context.assumed
    if known is None:
        what = f"no results with storage {storage.label} here, and no constants to compute them"
        raise ResultsError(what, remedy=_CALIBRATE)
    says = f"storage {storage.label} on {here.device}: nothing was run at that speed"
    made = replace(known, held=None).held_to(storage)
    return OtherDevice(here.device, made, None, (says,), f"storage {storage.label}")


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
    return OtherDevice(board.name, made, board.memory_label, says, f"constants of {board.name}")


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
    where = f"constants of {made.device}"
    return OtherDevice(made.device, made, None, (says, *_common(here), *kernel), where)


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
    where = f"constants of {board.name}"
    return OtherDevice(board.name, made, board.memory_label, (says, *_common(here)), where)


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
    """Counted bytes, else the simulator, at another device's constants."""

    def __init__(
        self,
        here: DeviceData,
        there: DeviceData,
        counted: Mapping[str, MissCurve] | None = None,
    ) -> None:
        """``counted``: by a workload's id the bytes that its rounds read."""
        self._here, self._there, self._counted = here, there, counted or {}

    def for_workload(self, curves: Sequence[Curve], name: str) -> WorkloadModel:
        """The model for a workload's curves.

        Raises:
            ResultsError: it can't predict them, with the reason.
        """
        own = {one.key: found for one in curves if (found := self._by_bytes.get(one.key))}
        try:
            simulated = self._simulated(curves, name)
        except ResultsError:
            if not own:
                raise
            return WorkloadModel(own)
        return WorkloadModel({one.key: own.get(one.key, simulated) for one in curves})

    @cached_property
    def _by_bytes(self) -> dict[str, CountedModel]:
        """By the key of a curve there what predicts it from counted bytes."""
        here, there = self._here.context, self._there.context.calibration
        known = here.calibration or here.assumed
        rounds = counted_rounds(self._here.curves, self._counted)
        if known is None or there is None or not rounds:
            return {}
        wider = 1.0 if self._there.device == self._here.device else WIDER
        found = counted_models(rounds, storage_costs(known), storage_costs(there), wider)
        pairs = zip(self._here.curves, self._there.curves, strict=True)
        return {moved.key: found[curve.key] for curve, moved in pairs if curve.key in found}

    def _simulated(self, curves: Sequence[Curve], name: str) -> Simulated:
        same = by_engine(self._here.curves).get(curves[0].engine, [])
        try:
            model = Simulated(learn(same, self._here.context), self._there.context, WIDER)
            for curve in curves:
                model.predict(curve, curve.limit_bytes[:0])
        except CannotPredictError as error:
            raise ResultsError(f"{name} can't be predicted: {error}", remedy=_CALIBRATE) from None
        return model


def data_of(here: DeviceData, device: OtherDevice) -> DeviceData:
    """What is known of the other device: the curves' unlimited times, and its constants."""
    named = {"device": device.name, "swap_kind": device.calibration.swap_kind}
    curves = tuple(
        replace(curve.unseen(), settings={**curve.settings, **named}) for curve in here.curves
    )
    context = replace(here.context, calibration=device.calibration)
    return DeviceData(device.name, device.calibration.swap_kind, curves, context)
