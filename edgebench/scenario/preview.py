"""What a scenario would run, and what this machine would make of it. Nothing is run."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from edgebench.measures.registry import own as own_strategies
from edgebench.plan.adaptive import most_trials
from edgebench.plan.plan import Point, points
from edgebench.scenario.scenario import Scenario
from edgebench.units import format_size
from edgebench.workloads.settings import CommandWorkload

#: With fewer limits an adaptive plan has nothing to choose.
_LEAST_CANDIDATES = 6


@dataclass(frozen=True)
class Machine:
    """What of a machine decides whether a scenario's limits can bite there."""

    ram_bytes: int
    cores: int
    root: bool
    system_swap: bool
    free_bytes: int


@dataclass(frozen=True)
class Preview:
    """What a scenario would run. ``longest_s`` is if every trial ran into its timeout.

    ``own_trials`` are those of strategies, which are not timed; ``trials`` are the others.
    ``target_error``: of an adaptive plan, which makes so many ``trials`` at most; else None.
    """

    name: str
    fingerprint: str
    points: list[Point]
    trials: int
    own_trials: int
    longest_s: float
    target_error: float | None = None
    warnings: list[str] = field(default_factory=list)


def this_machine() -> Machine:
    """The machine at hand, as the kernel tells it."""
    swaps = Path("/proc/swaps")
    return Machine(
        ram_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        cores=len(os.sched_getaffinity(0)),
        root=os.geteuid() == 0,
        system_swap=swaps.is_file() and len(swaps.read_text().splitlines()) > 1,
        free_bytes=shutil.disk_usage(tempfile.gettempdir()).free,
    )


def preview(scenario: Scenario, machine: Machine) -> Preview:
    """The scenario's points, how many trials that makes, and what would go awry here."""
    made = points(scenario)
    adaptive = scenario.limits.plan == "adaptive"
    trials = most_trials(made, scenario.repeats) if adaptive else len(made) * scenario.repeats
    own = len(scenario.memory.strategies) * min(len(made), trials)
    own_s = scenario.memory.timeout_s or scenario.timeout_s
    return Preview(
        name=scenario.name,
        fingerprint=scenario.fingerprint(),
        points=made,
        trials=trials,
        own_trials=own,
        longest_s=trials * scenario.timeout_s + own * own_s,
        target_error=scenario.limits.wanted_error if adaptive else None,
        warnings=[
            *_about_memory(scenario, machine),
            *_about_plan(scenario),
            *_about_cpu(scenario, machine),
            *_about_swap(scenario, machine),
            *_about_workload(scenario),
            *_about_strategies(scenario),
        ],
    )


def _about_memory(scenario: Scenario, machine: Machine) -> Iterator[str]:
    sizes = {limit.label: limit.memory_bytes for limit in scenario.limits.settings()}
    for label, size in sizes.items():
        if size is not None and size > machine.ram_bytes:
            ram = format_size(machine.ram_bytes)
            yield f"limit {label} can't bite: this machine has {ram} of RAM; leave it out"


def _about_plan(scenario: Scenario) -> Iterator[str]:
    limits = len(scenario.limits.memory_labels()) - 1
    if scenario.limits.plan == "adaptive" and limits < _LEAST_CANDIDATES:
        yield (
            f"an adaptive plan has {limits} limits to choose among: give it more, as "
            'memory = {from = "120%", to = "40%", steps = 20}'
        )


def _about_cpu(scenario: Scenario, machine: Machine) -> Iterator[str]:
    for cores in scenario.limits.cores or ():
        if cores > machine.cores:
            yield f"cores = {cores} can't be had: {machine.cores} are here, and will be used"
    for quota in scenario.limits.cpu_quota or ():
        if quota >= machine.cores:
            yield f"cpu_quota = {quota:g} can't bite: {machine.cores} cores are here"


def _about_swap(scenario: Scenario, machine: Machine) -> Iterator[str]:
    swap = scenario.limits.swap
    made = [kind for kind in swap.kind if kind in ("file", "zram")]
    if made and not machine.root:
        yield f'swap of kind {made[0]} needs root: use sudo, or write swap = "none" or "system"'
    if "system" in swap.kind and not machine.system_swap:
        yield 'this machine has no swap on: write swap = "2G" for a temporary one'
    if "file" in made and swap.size and swap.size > machine.free_bytes:
        free = format_size(machine.free_bytes)
        yield f"a swap file of {format_size(swap.size)} won't fit: {free} are free on the disk"


def _about_workload(scenario: Scenario) -> Iterator[str]:
    workload = scenario.workload
    if isinstance(workload, CommandWorkload):
        yield from _about_command(workload)
    elif importlib.util.find_spec("torch") is None:
        yield "torch is not installed: python3 -m pip install 'edgebench[torch]'"


def _about_strategies(scenario: Scenario) -> Iterator[str]:
    for name in scenario.memory.strategies:
        if reason := own_strategies()[name].unavailable():
            yield f"strategy {name} will be left out: {reason}"


def _about_command(workload: CommandWorkload) -> Iterator[str]:
    program = workload.command[0]
    # A path with a slash starts at the folder that the program runs in.
    if "/" in program and workload.cwd:
        program = str(Path(workload.cwd, program))
    if shutil.which(program, path=workload.env.get("PATH")) is None:
        yield f"no command {program!r} on this machine: check its spelling, or give its full path"
