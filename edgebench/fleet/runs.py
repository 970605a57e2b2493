"""A scenario on a fleet: which machines run which sweep, and what came of each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgebench.errors import EdgebenchError
from edgebench.fleet.connection import CONTROLLER, connected
from edgebench.fleet.content import sent_scenario
from edgebench.fleet.controller import FleetContext, FleetController, FleetProgress
from edgebench.fleet.groups import FleetMachine, GroupOptions, MachineGroup
from edgebench.fleet.inventory import Inventory
from edgebench.fleet.startup import host_resource, label_resource
from edgebench.scenario.scenario import load_scenario
from edgebench.scenario.shipped import find_scenario

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class DeviceSummary:
    """What came of one sweep. ``problem``: why it did not end; None: it is complete."""

    device: str
    folder: Path | None
    trials: int
    planned: int
    resumed: int
    outcomes: dict[str, int]
    machines: dict[str, str] = field(default_factory=dict)
    problem: EdgebenchError | None = None


def run_on_fleet(
    scenario: str,
    inventory: Inventory,
    options: GroupOptions,
    progress: FleetProgress,
    *,
    label: str | None = None,
    hosts: Sequence[str] = (),
) -> list[DeviceSummary]:
    """Run a scenario on each machine, or share its trials among those with the label.

    Args:
        scenario: a TOML file, or a shipped one's name.
        inventory: the fleet.
        options: of the run.
        progress: gets what happens.
        label: whose machines share one sweep; None: each machine has a sweep of its own.
        hosts: the machines to use, if not all.

    Raises:
        ScenarioError: the scenario has faults.
        FleetError: no scheduler answers, or another controller uses the fleet.
        InventoryError: no machine has the label.
    """
    path = find_scenario(scenario)
    loaded = load_scenario(path)
    sent = sent_scenario(tomllib.loads(loaded.text), path.resolve().parent)
    names = inventory.labelled(label) if label else list(inventory.hosts)
    names = [name for name in names if not hosts or name in hosts]
    resources = {name: (host_resource(name), [name]) for name in names}
    if label:
        resources = {label: (label_resource(label), names)}
    groups = []
    for device, (resource, own) in resources.items():
        machines = [FleetMachine(name) for name in own]
        groups.append(MachineGroup(device, resource, machines, loaded, sent.tables, options))
    with connected(inventory, CONTROLLER) as connection:
        context = FleetContext(connection, sent.files, progress)
        FleetController(context, groups).run()
    return [_summary(group) for group in groups]


def _summary(group: MachineGroup) -> DeviceSummary:
    sweep = group.sweep
    machines = {one.name: one.reason or one.state for one in group.machines}
    if sweep is None:
        return DeviceSummary(group.device, None, 0, 0, 0, {}, machines, group.error)
    return DeviceSummary(
        group.device,
        sweep.folder.path,
        sweep.done,
        sweep.total,
        sweep.resumed,
        sweep.trials.outcomes(),
        machines,
        group.error,
    )
