"""What models know beside times: layer tables and the device's constants; and curves by device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from edgebench.boards.storage import AS_IS, parse_storage
from edgebench.errors import EdgebenchError, MachineError, ResultsError, UsageError
from edgebench.slowdown.calibration.device import Calibration, assumed_constants, load_calibration
from edgebench.slowdown.curves import (
    WITH_ROUNDS,
    Curve,
    curves,
    killed_curves,
    unlimited_curves,
)
from edgebench.slowdown.workload import Tables, table_key

if TYPE_CHECKING:
    from edgebench.boards.storage import StorageSpeed
    from edgebench.results.results import Results

#: By machine, device, kind of swap and storage.
_Groups = dict[tuple[str, str, str, str], list[Curve]]


def machine_of(environment: Mapping[str, Any]) -> str:
    """What tells machines apart, whatever they are called: processor, cores and kernel's version.

    Empty where the environment has none of them.
    """
    kernel = ".".join(str(environment.get("kernel") or "").split(".")[:2])
    words = [environment.get("architecture"), environment.get("cpu_model"), kernel]
    cores = environment.get("cpu_cores")
    said = [*map(str, filter(None, words)), *([f"{cores} cores"] if cores else [])]
    return ", ".join(said)


@dataclass(frozen=True)
class Context:
    """What is known beside trials below a limit.

    ``tables`` holds layer tables, as rows of ``networks.json``, by
    :func:`~edgebench.slowdown.workload.table_key`; ``calibration`` the constants of the curves'
    device with their kind of swap, None if it was never calibrated; then ``assumed`` has those of a
    common computer, which only a declared speed is combined with. ``base_bytes``
    is the runtime's footprint as trials tell it.
    """

    tables: Tables
    calibration: Calibration | None = None
    assumed: Calibration | None = None
    base_bytes: float | None = None


@dataclass(frozen=True)
class DeviceData:
    """Curves of one device with one kind of swap and one storage, and their context.

    ``machine`` is what :func:`machine_of` tells of it: two may have one name. ``killed`` are curves
    of workloads that finished at no limit: nothing is fitted to them.
    """

    device: str
    swap_kind: str
    curves: tuple[Curve, ...]
    context: Context
    killed: tuple[Curve, ...] = ()
    machine: str = ""

    @property
    def storage(self) -> str:
        """The speed that the storage was held to."""
        return min(str(c.settings.get("storage", AS_IS)) for c in (*self.curves, *self.killed))

    def with_tables(self, tables: Tables) -> DeviceData:
        """The same, with these networks' layer tables added."""
        both = {**self.context.tables, **tables}
        return replace(self, context=replace(self.context, tables=both))


def _tables(results: Results) -> Tables:
    found = {}
    for sweep in results.sweeps:
        image = next((one.settings.get("image") for one in sweep.records), None)
        for name, network in sweep.networks.get("networks", {}).items():
            found[table_key(name, image)] = network["table"]
    return found


def context_of(results: Results, curves: Sequence[Curve]) -> tuple[Context, list[str]]:
    """The layer tables of the results' networks, and the calibration kept beside the results.

    The second value is the reason if there is no calibration.
    """
    tables = _tables(results)
    kinds = {(c.settings.get("device"), c.settings.get("swap_kind")) for c in curves}
    if not tables or len(kinds) != 1:
        return Context(tables), []
    # Curves that are given together have one storage.
    storage = parse_storage(min(str(c.settings.get("storage", AS_IS)) for c in curves))
    ((device, kind),) = kinds
    base = _base_bytes(results, str(device))
    machine = _machines(results).get(str(curves[0].settings.get("sweep")), "")
    try:
        found = _calibration(results, str(device), str(kind), storage)
        if (own := machine_of(found.environment)) and machine and own != machine:
            what = f"the calibration of {device} is of another machine ({own}; trials: {machine})"
            raise ResultsError(what, remedy="edgebench calibrate")
    except EdgebenchError as error:
        assumed = _assumed(results, str(device), str(kind), storage, base)
        return Context(tables, assumed=assumed, base_bytes=base), [str(error)]
    return Context(tables, found, base_bytes=base), []


def _machines(results: Results) -> dict[str, str]:
    """By a sweep's name the machine that it ran on."""
    return {sweep.name: machine_of(sweep.environment) for sweep in results.sweeps}


def _base_bytes(results: Results, device: str) -> float | None:
    """The runtime's footprint: the median of torch's trials that show a demand; None without."""
    trials = results.trials
    own = (trials["device"] == device) & trials["engine"].isna() & trials["memory_bytes"].isna()
    # A walk shows no demand, and its footprint is taken when it has long begun.
    own &= trials["demand_bytes"].notna() & trials["kind"].isin(WITH_ROUNDS)
    base = trials.loc[own, "base_bytes"].median()
    return None if pd.isna(base) else float(base)


def _assumed(
    results: Results, device: str, swap_kind: str, storage: StorageSpeed, base: float | None
) -> Calibration | None:
    """Constants where no calibration is; None where no trial tells the runtime's footprint."""
    if base is None:
        return None
    environment = next(
        (one.environment for one in results.sweeps if one.device == device), dict[str, Any]()
    )
    try:
        return assumed_constants(device, swap_kind, base, environment).held_to(storage)
    except MachineError:
        return None


def _calibration(results: Results, device: str, kind: str, storage: StorageSpeed) -> Calibration:
    root = results.sweeps[0].path.resolve().parent.parent
    return load_calibration(root, device, kind, ram=storage.ram).held_to(storage)


def device_data(results: Results) -> tuple[list[DeviceData], list[str]]:
    """The data of each machine, kind of swap and storage; and warnings about what is missing.

    Workloads that ran only without a limit are among them, and those that finished at no limit.

    Raises:
        ResultsError: no trial below a limit, with the reason, and no constants to compute one.
    """
    machines = _machines(results)
    groups, why_none = _limited_groups(results, machines)
    known, killed = [*groups], _grouped(killed_curves(results), machines)
    limited = {curve.workload for own in groups.values() for curve in own}
    for curve in unlimited_curves(results):
        machine, device, own_kind, storage = _group_of(curve, machines)
        # An unlimited time holds whatever the swap is.
        kinds = [key[2] for key in known if (*key[:2], key[3]) == (machine, device, storage)]
        # A phase that ran without a limit alone, of a workload that did not, is no whole workload.
        kinds = [own_kind] if curve.workload in limited else kinds
        for kind in kinds or [own_kind]:
            one = curve if kind == own_kind else _with_other_swap(curve, kind)
            groups.setdefault((machine, device, kind, storage), []).append(one)
    found, warnings = [], []
    for key in dict.fromkeys([*groups, *killed]):
        machine, device, kind, _ = key
        own, lost = groups.get(key, []), killed.get(key, [])
        context, why = context_of(results, own or lost)
        found.append(DeviceData(device, kind, tuple(own), context, tuple(lost), machine))
        warnings += why
    if why_none and not killed and all(one.context.calibration is None for one in found):
        raise why_none
    return found, warnings


def _limited_groups(
    results: Results, machines: Mapping[str, str]
) -> tuple[_Groups, ResultsError | None]:
    """The curves by device, kind of swap and storage; or why there is none."""
    try:
        return _grouped(curves(results), machines), None
    except ResultsError as error:
        return {}, error


def _grouped(curves: Iterable[Curve], machines: Mapping[str, str]) -> _Groups:
    groups: _Groups = {}
    for curve in curves:
        groups.setdefault(_group_of(curve, machines), []).append(curve)
    return groups


def _group_of(curve: Curve, machines: Mapping[str, str]) -> tuple[str, str, str, str]:
    at = curve.settings
    machine = machines.get(str(at.get("sweep")), "")
    return (
        machine,
        str(at["device"]),
        str(at.get("swap_kind", "none")),
        str(at.get("storage", AS_IS)),
    )


def matching_device_data(
    results: Results,
    device: str | None = None,
    swap_kind: str | None = None,
) -> tuple[list[DeviceData], list[str]]:
    """The data of one device, by kind of swap and storage; and warnings about what is missing.

    The first is of the machine that is calibrated here, if one is, has swap, and the most curves.
    A kind without any trial is known from its calibration alone: unlimited times and layer tables
    still hold.

    Raises:
        UsageError: several devices, and none was named.
        ResultsError: nothing of that device, or no curve at all.
        MachineError: the device was not calibrated with that kind of swap.
    """
    found, warnings = device_data(results)
    own = _of_device(found, device)
    calibrated = {data.machine for data in own if data.context.calibration}
    home = calibrated or {data.machine for data in own}
    # Swap that isn't given is one that the device was calibrated with, never silently none.
    own.sort(
        key=lambda data: (
            *(data.machine not in home, data.context.calibration is None),
            *(data.swap_kind == "none", -len(data.curves)),
        )
    )
    matching = [data for data in own if swap_kind in (None, data.swap_kind)]
    if matching:
        return matching, warnings
    assert swap_kind is not None
    most = own[0]
    calibration = _calibration(results, most.device, swap_kind, parse_storage(most.storage))
    curves = tuple(_with_other_swap(curve, swap_kind) for curve in most.curves)
    context = replace(most.context, calibration=calibration)
    return [DeviceData(most.device, swap_kind, curves, context)], []


def _of_device(found: Sequence[DeviceData], device: str | None) -> list[DeviceData]:
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
    return own


def _with_other_swap(curve: Curve, swap_kind: str) -> Curve:
    """What of a curve holds with another swap: its unlimited times."""
    kept = {k: v for k, v in curve.settings.items() if k != "swap_bytes"}
    # No trial was of that workload.
    return replace(curve.unseen(), settings={**kept, "swap_kind": swap_kind}, workload="")
