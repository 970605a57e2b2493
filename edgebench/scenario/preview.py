"""What a scenario would run, and what this machine would make of it. Nothing is run."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path

import psutil

from edgebench.boards import AS_IS_REMEDY, find_board, parse_storage
from edgebench.cgroups.parent import memory_version, refused_limit
from edgebench.installation import install, missing
from edgebench.layers.names import CUDA
from edgebench.layers.references import CODE, ModelReference
from edgebench.measures.machine.system_files import why_no_cuda
from edgebench.measures.strategies import with_own_trial
from edgebench.processes import find_program
from edgebench.scenario.points import (
    Point,
    asked_sizes,
    has_own_trial,
    has_start,
    libraries,
    points,
)
from edgebench.scenario.scenario import Scenario
from edgebench.scenario.workloads import CommandWorkload
from edgebench.swap_areas import read_swap_areas
from edgebench.text import AS_IS, format_size


@dataclass(frozen=True)
class MachineCapacity:
    """What of a machine decides whether a scenario's limits have an effect there."""

    ram_bytes: int
    cores: int
    root: bool
    system_swap: bool
    free_bytes: int
    free_ram_bytes: int
    cgroup_version: int | None = None


@dataclass(frozen=True)
class Preview:
    """What a scenario would run. ``longest_s`` is if every trial ran into its timeout.

    ``own_trials`` are those of strategies, which are not timed; ``trials`` are the others.
    ``walks``: how many of the ``trials`` are walks. ``obstacles``: those of the ``warnings`` for
    which ``run`` would refuse here.
    """

    name: str
    fingerprint: str
    points: list[Point]
    trials: int
    own_trials: int
    longest_s: float
    walks: int = 0
    warnings: list[str] = field(default_factory=list)
    obstacles: list[str] = field(default_factory=list)


def this_machine() -> MachineCapacity:
    """Return the machine at hand, as the kernel tells it."""
    return MachineCapacity(
        ram_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        cores=len(os.sched_getaffinity(0)),
        root=os.geteuid() == 0,
        system_swap=bool(read_swap_areas()),
        free_bytes=shutil.disk_usage(tempfile.gettempdir()).free,
        free_ram_bytes=psutil.virtual_memory().available,
        cgroup_version=memory_version(),
    )


def preview(scenario: Scenario, machine: MachineCapacity) -> Preview:
    """Return the points, how many trials that makes, and what would fail or be ignored here."""
    made = points(scenario)
    limits = scenario.limits
    walks, fresh = 0, len(made) * scenario.repeats
    if limits.walks:
        walks = sum(point.unlimited for point in made) * scenario.repeats
        fresh = sum(has_start(point, limits.starts) for point in made)
    trials = walks + fresh
    looked_at = sum(has_own_trial(name, p) for name in scenario.strategies for p in made)
    own = min(looked_at, len(scenario.strategies) * trials)
    own_s = scenario.memory.timeout_s or scenario.timeout_s
    obstacles = list(_obstacles(scenario, made, machine))
    missing_command = []
    if isinstance(command := scenario.workload, CommandWorkload):
        program = command.command[0]
        # A path with a slash starts at the folder that the program runs in.
        place = Path(command.cwd, program) if "/" in program and command.cwd else program
        if find_program(str(place), command.env.get("PATH")) is None:
            hint = "check its spelling, or give its full path"
            missing_command = [f"no command {str(place)!r} on this machine: {hint}"]
    absent = {name: with_own_trial()[name].unavailable() for name in scenario.strategies}
    return Preview(
        name=scenario.name,
        fingerprint=scenario.fingerprint(),
        points=made,
        trials=trials,
        own_trials=own,
        longest_s=trials * scenario.timeout_s + own * own_s,
        walks=walks,
        warnings=[
            *_about_limits(scenario, machine),
            *missing_command,
            *(f"strategy {n} will be left out: {why}" for n, why in absent.items() if why),
            *obstacles,
        ],
        obstacles=obstacles,
    )


def _obstacles(
    scenario: Scenario, made: Sequence[Point], machine: MachineCapacity
) -> Iterator[str]:
    """Yield what `run` would refuse for on this machine."""
    version = machine.cgroup_version
    if version and (refused := refused_limit(version, asked_sizes(made))):
        yield f"{refused.what}: {refused.remedy}"
    yield from _about_swap(scenario, machine)
    held = [label for label in scenario.limits.storage if label != AS_IS]
    if held and not machine.root:
        yield f"storage can be held to {held[0]} only as root: use sudo, or {AS_IS_REMEDY}"
    if lacking := missing({name for point in made for name in libraries(point.settings)}):
        yield f"{' and '.join(lacking)} not installed: {install(*lacking)}"
    named = {n: one for p in made for n, one in (p.settings.get("references") or {}).items()}
    for reference in map(ModelReference.from_json, named.values()):
        module = reference.target.partition(":")[0].partition(".")[0]
        if reference.kind != CODE or reference.path:
            continue
        # It is looked for, and not imported.
        if PathFinder.find_spec(module, [reference.folder or "", *sys.path]) is None:
            yield (
                f"no module {module!r} is found from {reference.folder}: go to the folder that "
                "holds it, or install it"
            )
    if any(point.settings.get("accelerator") == CUDA for point in made) and (why := why_no_cuda()):
        yield f"{why[0]}: {why[1]}"


def _about_limits(scenario: Scenario, machine: MachineCapacity) -> Iterator[str]:
    """Yield what of its limits this machine lacks, and what a board's name does not emulate."""
    limits = list(scenario.limits.settings())
    for label, size in {at.label: at.memory_bytes for at in limits}.items():
        if size is not None and size > machine.ram_bytes:
            ram = format_size(machine.ram_bytes)
            yield f"limit {label} has no effect: this machine has {ram} of RAM; leave it out"
    for cores in scenario.limits.cores or ():
        if cores > machine.cores:
            yield f"cores = {cores}: this machine has only {machine.cores}, which will be used"
    for quota in scenario.limits.cpu_quota or ():
        if quota >= machine.cores:
            yield f"cpu_quota = {quota:g} has no effect: this machine has {machine.cores} cores"
    for name, kind in dict.fromkeys((at.board, at.swap_kind) for at in limits):
        if name:
            board = find_board(name)
            yield f"{board.title}: {board.not_emulated(kind, walks=scenario.limits.walks)}"


def _about_swap(scenario: Scenario, machine: MachineCapacity) -> Iterator[str]:
    swap = scenario.limits.swap
    made = [kind for kind in swap.kind if kind in ("file", "zram")]
    if made and not machine.root:
        yield f'swap of kind {made[0]} needs root: use sudo, or write swap = "none" or "system"'
    if "system" in swap.kind and not machine.system_swap:
        yield 'this machine has no swap on: write swap = "2G" for a temporary one'
    in_memory = {parse_storage(label).ram for label in scenario.limits.storage}
    for is_ram in sorted(in_memory):
        free = machine.free_ram_bytes if is_ram else machine.free_bytes
        if "file" in swap.kind and swap.size and swap.size > free:
            place = "in memory" if is_ram else "on the disk"
            words = f"a swap file of {format_size(swap.size)} won't fit"
            yield f"{words}: {format_size(free)} are free {place}"
    if True in in_memory and "system" in swap.kind:
        yield 'swap = "system" is on no disk in memory: write "2G", or leave disk=ram out'
