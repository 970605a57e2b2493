"""What is known of a device: its curves, layer tables and constants, by swap and storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from edgebench.boards import StorageSpeed, parse_storage
from edgebench.errors import EdgebenchError, MachineError, ResultsError, UsageError
from edgebench.slowdown.calibration import Calibration, assumed_constants, load_calibration
from edgebench.slowdown.curves import (
    WITH_ROUNDS,
    CannotPredictError,
    Curve,
    curves,
    unlimited_curves,
)
from edgebench.text import AS_IS

if TYPE_CHECKING:
    from edgebench.results.results import Results


Tables = Mapping[str, Sequence[Mapping[str, Any]]]


def table_key(network: str, image: object = None) -> str:
    """Return the key of a network's layer table: inputs of another size have another table."""
    # NaN is not itself.
    return network if image is None or image != image else f"{network} at {image:.0f} pixels"


@dataclass(frozen=True)
class DeviceData:
    """What is known of one device with one kind of swap and one storage.

    Args:
        device, swap_kind: their names.
        curves: of its workloads, those that finished below no limit last.
        tables: layer tables, as rows of ``networks.json``, by
            :func:`table_key`.
        calibration: its constants; where it was never calibrated those of a common computer; None
            where no trial tells the runtime's footprint either.
        base_bytes: that footprint, as trials tell it.
        machine: what :func:`machine_of` tells of it: two may have one name.
    """

    device: str
    swap_kind: str
    curves: tuple[Curve, ...]
    tables: Tables
    calibration: Calibration | None = None
    base_bytes: float | None = None
    machine: str = ""

    @property
    def storage(self) -> str:
        """The speed that the storage was held to."""
        return min(str(curve.settings.get("storage", AS_IS)) for curve in self.curves)

    @property
    def calibrated(self) -> bool:
        """Whether its constants were measured."""
        return self.calibration is not None and not self.calibration.assumed

    @property
    def constants(self) -> Calibration:
        """The constants to compute with; assumed ones only below a declared speed, which decides.

        Raises:
            CannotPredictError: there are none.
        """
        if self.calibration is None or (self.calibration.assumed and not self.calibration.held):
            raise CannotPredictError("the device is not calibrated: edgebench calibrate")
        return self.calibration

    @property
    def runtime_bytes(self) -> float:
        """The idle runtime's footprint.

        Raises:
            CannotPredictError: neither trials nor a calibration tell it.
        """
        return self.base_bytes if self.base_bytes is not None else self.constants.base_bytes.value


def machine_of(environment: Mapping[str, Any]) -> str:
    """Return what tells machines apart, whatever their names: processor, cores, kernel version.

    Empty where the environment has none of them.
    """
    kernel = ".".join(str(environment.get("kernel") or "").split(".")[:2])
    words = [environment.get("architecture"), environment.get("cpu_model"), kernel]
    cores = environment.get("cpu_cores")
    return ", ".join([*map(str, filter(None, words)), *([f"{cores} cores"] if cores else [])])


class _Place(NamedTuple):
    """What curves of one :class:`DeviceData` have in common."""

    machine: str
    device: str
    swap_kind: str
    storage: str


def device_data(results: Results) -> tuple[list[DeviceData], list[str]]:
    """Return the data of each machine, kind of swap and storage, and what is missing.

    Workloads that ran only without a limit are among them, and those that finished at no limit.

    Raises:
        ResultsError: no trial below a limit, with the reason, and no constants to compute one.
    """
    machines = {sweep.name: machine_of(sweep.environment) for sweep in results.sweeps}

    def place_of(curve: Curve) -> _Place:
        about = curve.settings
        names = (about["device"], about.get("swap_kind", "none"), about.get("storage", AS_IS))
        return _Place(machines.get(str(about.get("sweep")), ""), *map(str, names))

    groups: dict[_Place, list[Curve]] = {}
    why_none = None
    try:
        limited = curves(results)
    except ResultsError as error:
        limited, why_none = [], error
    for curve in limited:
        groups.setdefault(place_of(curve), []).append(curve)
    known, finished = [*groups], {curve.workload for curve in limited}
    unlimited = unlimited_curves(results)
    for curve in unlimited:
        own = place_of(curve)
        # An unlimited time holds whatever the swap is; but a phase that ran without a limit alone,
        # of a workload that did not, is no whole workload.
        alike = [place for place in known if place._replace(swap_kind=own.swap_kind) == own]
        if curve.lost_bytes or curve.workload in finished:
            alike = []
        for place in alike or [own]:
            same = curve if place == own else _with_other_swap(curve, place.swap_kind)
            groups.setdefault(place, []).append(same)
    tables: dict[str, Any] = {}
    for sweep in results.sweeps:
        image = next((record.settings.get("image") for record in sweep.records), None)
        for name, network in sweep.networks.get("networks", {}).items():
            tables[table_key(name, image)] = network["table"]
    found, warnings = [], []
    for place, own_curves in groups.items():
        data = DeviceData(
            place.device, place.swap_kind, tuple(own_curves), tables, machine=place.machine
        )
        if tables:
            data, why = _with_constants(data, results, parse_storage(place.storage))
            warnings += why
        found.append(data)
    killed = any(curve.lost_bytes for curve in unlimited)
    if why_none and not killed and not any(data.calibrated for data in found):
        raise why_none
    return found, warnings


def _with_constants(
    data: DeviceData, results: Results, storage: StorageSpeed
) -> tuple[DeviceData, list[str]]:
    trials = results.trials
    own = (trials["device"] == data.device) & trials["engine"].isna()
    # A walk shows no demand, and its footprint is taken when it has long begun.
    own &= trials["memory_bytes"].isna() & trials["demand_bytes"].notna()
    base = trials.loc[own & trials["kind"].isin(WITH_ROUNDS), "base_bytes"].dropna()
    data = replace(data, base_bytes=float(base.median()) if len(base) else None)
    try:
        found = _calibration(results, data.device, data.swap_kind, storage)
        machine = machine_of(found.environment)
        if machine and data.machine and machine != data.machine:
            what = f"the calibration of {data.device} is of another machine"
            what += f" ({machine}; trials: {data.machine})"
            raise ResultsError(what, remedy="edgebench calibrate")
        return replace(data, calibration=found), []
    except EdgebenchError as error:
        why = [str(error)]
    if data.base_bytes is None:
        return data, why
    environment = next(
        (one.environment for one in results.sweeps if one.device == data.device), dict[str, Any]()
    )
    assumed = assumed_constants(data.device, data.swap_kind, data.base_bytes, environment)
    try:
        return replace(data, calibration=assumed.held_to(storage)), why
    except MachineError:
        return data, why


def _calibration(results: Results, device: str, kind: str, storage: StorageSpeed) -> Calibration:
    root = results.sweeps[0].path.resolve().parent.parent
    return load_calibration(root, device, kind, ram=storage.ram).held_to(storage)


def matching_device_data(
    results: Results, device: str | None = None, swap_kind: str | None = None
) -> tuple[list[DeviceData], list[str]]:
    """Return the data of one device, by kind of swap and storage, and what is missing.

    The first is calibrated, if one is, has swap, and the most curves.
    A kind without any trial is known from its calibration alone: unlimited times and layer tables
    still hold.

    Raises:
        UsageError: several devices, and none was named.
        ResultsError: nothing of that device, or no curve at all.
        MachineError: the device was not calibrated with that kind of swap.
    """
    found, warnings = device_data(results)
    devices = sorted({data.device for data in found})
    if device is None and len(devices) > 1:
        raise UsageError(
            f"results of {len(devices)} devices, and constants of one say nothing of another",
            remedy=f"name one with --device: {', '.join(devices)}",
        )
    own = [data for data in found if device in (None, data.device)]
    if not own:
        raise ResultsError(
            f"no results of device {device!r} here, and another's say nothing of it",
            remedy=f"known here: {', '.join(devices)}; or: edgebench run quickstart",
        )
    # Swap that isn't given is one that the device was calibrated with, never silently none.
    own.sort(key=lambda d: (not d.calibrated, d.swap_kind == "none", -len(d.curves)))
    if matching := [data for data in own if swap_kind in (None, data.swap_kind)]:
        return matching, warnings
    assert swap_kind is not None
    most = own[0]
    found_there = _calibration(results, most.device, swap_kind, parse_storage(most.storage))
    moved = tuple(_with_other_swap(curve, swap_kind) for curve in most.curves)
    data = replace(most, swap_kind=swap_kind, curves=moved, calibration=found_there)
    return [data], []


def _with_other_swap(curve: Curve, swap_kind: str) -> Curve:
    """Return what of a curve holds with another swap: its unlimited times."""
    kept = {k: v for k, v in curve.settings.items() if k != "swap_bytes"}
    # No trial was of that workload.
    return replace(curve.unseen(), settings={**kept, "swap_kind": swap_kind}, workload="")
