"""Machines that make one sweep's trials: one of them, or several equal ones that share it.

Whether a machine may take part follows from its versions, clock, disk and identity. Trials are
shared among machines only if the same probes take as long on each: the difference of their medians
is no more than the probes' own spread, or 5 %.
"""

from __future__ import annotations

import hashlib
import json
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from edgebench import __version__
from edgebench.errors import EdgebenchError
from edgebench.fleet.device_sweep import DeviceSweep
from edgebench.fleet.inventory import Inventory
from edgebench.fleet.messages import same_version_remedy
from edgebench.run.sweep import PlannedSweep
from edgebench.scenario.planner import planner_of
from edgebench.scenario.points import PlannedTrial, Point, points
from edgebench.scenario.scenario import Scenario
from edgebench.units import MIB, format_size

#: Machines whose medians differ by no more than this are equal, however little probes spread.
LEAST_DIFFERENCE = 0.05
PROBES = 3
_MOST_CLOCK_S = 60.0
_LEAST_FREE_BYTES = 512 * MIB
_DESCRIPTION = ("edgebench", "python", "clock_off_s", "boot_id", "free_bytes")

#: Label of a probe's limit → seconds of each trial.
ProbeTimes = Mapping[str, Sequence[float]]


#: ``absent``: no worker is there. ``opening``: it gets ready. ``ready``: probed, waiting for the
#: others. ``left-out``: it takes no part.
State = Literal["absent", "opening", "ready", "working", "left-out"]
#: So many trials in a row that a machine could not make, and it gets no more.
MOST_ERRORS = 3


def unfit_reason(described: Mapping[str, Any] | str, *, shared: bool) -> str | None:
    """Why a machine can't take part; None: it can. ``shared``: trials are shared among machines."""
    if isinstance(described, str) or any(key not in described for key in _DESCRIPTION):
        return (
            f"its worker doesn't answer as edgebench {__version__} does ({described}); "
            f"{same_version_remedy(__version__)}"
        )
    if described["edgebench"] != __version__:
        return (
            f"edgebench {described['edgebench']} runs there, {__version__} here; "
            f"{same_version_remedy(__version__)}"
        )
    if shared and _minor(described["python"]) != _minor(platform.python_version()):
        return (
            f"Python {described['python']} runs there, {platform.python_version()} here; trials "
            "are shared only among equal versions: name another one with python = …"
        )
    if abs(off_s := described["clock_off_s"]) > _MOST_CLOCK_S:
        side = "ahead" if off_s > 0 else "behind"
        return f"its clock is {abs(off_s) / 60:.0f} min {side}; set it: timedatectl set-ntp true"
    if (free := described["free_bytes"]) < _LEAST_FREE_BYTES:
        return f"only {format_size(free)} of its disk are free; free some space"
    return None


def failing_reason(name: str, trials: int, said: str) -> str:
    """Why a machine that could not make so many trials in a row gets no more."""
    return (
        f"it could not make {trials} trials in a row, the last because of: {said}; "
        f"edgebench fleet doctor --host {name}"
    )


def same_machines(described: Mapping[str, Mapping[str, Any] | str]) -> dict[str, str]:
    """Machine → the one before it in the inventory that is the same one."""
    seen: dict[str, str] = {}
    found = {}
    for name, answer in described.items():
        boot = "" if isinstance(answer, str) else str(answer.get("boot_id") or "")
        if boot and boot in seen:
            found[name] = seen[boot]
        elif boot:
            seen[boot] = name
    return found


def listed_twice(name: str, other: str, inventory: Inventory) -> str | None:
    """Why a machine that is the same as another one can't take part; None: both are ``local``."""
    if inventory.hosts[name].local and inventory.hosts[other].local:
        return None
    return f"it is the same machine as {other}, listed twice; remove one from the inventory"


def probe_points(points: Sequence[Point]) -> list[Point]:
    """What is tried on each machine: a workload without a limit, and at its middle limit."""
    unlimited = next((point for point in points if point.unlimited), None)
    if unlimited is None:
        return list(points[:1])
    limited = [p for p in points if not p.unlimited and p.same_workload(unlimited)]
    return [unlimited, *limited[len(limited) // 2 :][:1]]


def equal_machines(probes: Mapping[str, ProbeTimes]) -> dict[str, str]:
    """Machine → why it is not mixed with the others; the largest group of equal ones has none."""
    groups = {
        name: [other for other in probes if unequal_words(probes[name], probes[other]) is None]
        for name in probes
    }
    if not groups:
        return {}
    # The first of the inventory, where groups are as large.
    centre = max(groups, key=lambda name: len(groups[name]))
    found = {}
    for name in probes:
        if name not in groups[centre]:
            words = unequal_words(probes[centre], probes[name])
            found[name] = f"it is not equal to {centre}: {words}"
    return found


def unequal_words(reference: ProbeTimes, other: ProbeTimes) -> str | None:
    """How the probes of a machine differ from another one's; None: by no more than they spread."""
    for label, times in reference.items():
        own = other.get(label, ())
        if bool(times) != bool(own):
            return f"the probe at {label} finishes on one of them only"
        if not times:
            continue
        ratio = statistics.median(own) / statistics.median(times)
        spread = max(map(_spread, (times, own)))
        if max(ratio, 1 / ratio) - 1 > max(LEAST_DIFFERENCE, spread):
            return (
                f"the probe at {label} takes {ratio:.2f} times as long, and repeats differ by "
                f"{spread:.0%} only"
            )
    return None


def _spread(times: Sequence[float]) -> float:
    return (max(times) - min(times)) / statistics.median(times)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


@dataclass
class FleetMachine:
    """A machine in one run.

    ``reason``: why it is left out. ``label``: how much it has of its group's Dask resource.
    """

    name: str
    state: State = "absent"
    address: str | None = None
    reason: str | None = None
    opened: Mapping[str, Any] = field(default_factory=dict)
    probes: ProbeTimes | None = None
    errors_in_row: int = 0
    label: int = 1

    def leave_out(self, reason: str) -> None:
        """It takes no part in this run."""
        self.state, self.reason = "left-out", reason


@dataclass(frozen=True)
class GroupOptions:
    """Where results go, whether an unfinished sweep is resumed, and whether machines share it."""

    results: Path = Path("results")
    fresh: bool = False
    shared: bool = False


class MachineGroup:
    """One sweep and the machines that make its trials.

    Args:
        device: the name in results.
        resource: the Dask resource that exactly these machines have.
        machines: in the inventory's order.
        scenario, tables: what runs; its tables as they are sent.
        options: of the run.
    """

    def __init__(
        self,
        device: str,
        resource: str,
        machines: list[FleetMachine],
        scenario: Scenario,
        tables: Mapping[str, Any],
        options: GroupOptions,
    ) -> None:
        self.device, self.resource, self.machines = device, resource, machines
        self.tables, self.options = tables, options
        self._scenario, self._points = scenario, points(scenario)
        said = json.dumps([device, tables], sort_keys=True, default=str)
        #: The same for a controller that was started again: a service that is open goes on.
        self.key = hashlib.sha256(said.encode()).hexdigest()[:16]
        self.sweep: DeviceSweep | None = None
        self.error: EdgebenchError | None = None
        self.over = False

    def of(self, *states: State) -> list[FleetMachine]:
        """Its machines in one of these states."""
        return [one for one in self.machines if one.state in states]

    def probe_orders(self) -> list[dict[str, Any]]:
        """The trials that are tried on each machine before it shares the sweep."""
        chosen = probe_points(self._points)
        return [asdict(PlannedTrial("probe", point.id, 0, 0)) for point in chosen]

    def probed(self, machine: FleetMachine, times: Mapping[str, Any]) -> None:
        """Keep how long a machine's probes took, by the label of their limit."""
        labels = {point.id: point.limits.label for point in self._points}
        machine.probes = {labels[name]: tuple(found) for name, found in times.items()}

    def admit(self, machine: FleetMachine) -> None:
        """A machine is open, and probed if it has to be: it waits, works, or is left out.

        Raises:
            ResultsError: the results folder can't be written, or another sweep is writing to it.
        """
        machine.state = "ready"
        if not self.of("opening"):
            self._begin()

    def _begin(self) -> None:
        """All machines that are there are known: those that are equal begin."""
        ready = self.of("ready")
        if not ready:
            return
        if self.options.shared:
            self._leave_out_unequal(ready)
        ready = self.of("ready")
        if self.sweep is None and ready:
            self._open(ready)
        for machine in ready:
            machine.state = "working"

    def _leave_out_unequal(self, ready: list[FleetMachine]) -> None:
        working = self.of("working")
        if working:
            reference = working[0]
            found = {one.name: unequal_words(_times(reference), _times(one)) for one in ready}
            words = f"it is not equal to {reference.name}"
            reasons = {name: f"{words}: {why}" for name, why in found.items() if why}
        else:
            reasons = equal_machines({one.name: _times(one) for one in ready})
        for machine in ready:
            if machine.name in reasons:
                machine.leave_out(reasons[machine.name])
        self._leave_out_other_networks()

    def _leave_out_other_networks(self) -> None:
        """Machines on which the scenario's networks are others, as by another version of torch."""
        known = [*self.of("working"), *self.of("ready")]
        first = self._planned(known[0]).fingerprint if known else ""
        for machine in self.of("ready"):
            if self._planned(machine).fingerprint != first:
                machine.leave_out(
                    f"the scenario's networks are others than on {known[0].name}: install the "
                    "same versions of their libraries on both"
                )

    def _planned(self, machine: FleetMachine) -> PlannedSweep:
        manifest = machine.opened["manifest"]
        planner = planner_of(self._scenario, self._points)
        shared = {one.name: dict(one.probes or {}) for one in self.machines if one.probes}
        return PlannedSweep(self._scenario, self._points, planner, manifest, machines=shared)

    def _open(self, ready: list[FleetMachine]) -> None:
        environment = dict(ready[0].opened["environment"])
        environment["fleet"] = {one.name: one.opened["environment"] for one in ready}
        self.sweep = DeviceSweep(
            self._planned(ready[0]),
            self.options.results,
            self.device,
            environment if self.options.shared else ready[0].opened["environment"],
            fresh=self.options.fresh,
        )

    def lose(self, machine: FleetMachine) -> None:
        """Its worker is gone; it may come back."""
        machine.state, machine.address, machine.reason = "absent", None, None
        machine.label, machine.errors_in_row = 1, 0
        if self.of("ready") and not self.of("opening"):
            self._begin()

    def leave_out(self, machine: FleetMachine, reason: str) -> None:
        """A machine takes no part; the others don't wait for it any longer."""
        machine.leave_out(reason)
        if self.of("ready") and not self.of("opening"):
            self._begin()

    def is_failing(self, machine: FleetMachine, outcome: str) -> bool:
        """Whether the machine could not make several trials in a row."""
        machine.errors_in_row = machine.errors_in_row + 1 if outcome == "harness-error" else 0
        return machine.errors_in_row >= MOST_ERRORS


def _times(machine: FleetMachine) -> ProbeTimes:
    return machine.probes or {}
