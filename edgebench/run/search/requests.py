"""Whose least limits are searched for: of a network or of any program; and their scenarios."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import psutil

from edgebench.boards.storage import AS_IS
from edgebench.errors import UsageError
from edgebench.layers.names import GENERATE
from edgebench.scenario.flag_scenario import (
    inference_workload,
    requested_limits,
    scenario_from_flags,
)
from edgebench.scenario.inference import loaders_of, schedules_of
from edgebench.scenario.scenario import Scenario
from edgebench.units import MIB, parse_swap
from edgebench.workloads.engines.engine import engine_of, file_engine

#: The least limit that may be tried.
_LEAST_BYTES = MIB


@dataclass(frozen=True)
class MinimumRequest:
    """A network. ``swap``, ``storage``, ``board``, ``timeout`` and ``within`` as in a scenario.

    ``slowdown``: the factor that a round may be slower by; None: 1.1. ``killed``: also where it is
    killed, though the swap can hold all that it needs.
    ``schedule``: None is ``bulk``, and ``whole`` for a file; ``loader``: None is what a plain
    program does. ``confirm``: how many further trials the given limit must finish; None: 3, or
    fewer once the search has taken long. ``new_tokens``: how many a language model generates after
    a ``prompt`` of so many tokens; None: one forward pass. ``within``: the only limit that is
    tried; None searches.
    """

    network: str
    slowdown: float | None = None
    schedule: str | None = None
    loader: str | None = None
    batch: int = 1
    image: int | None = None
    input: str | dict[str, str] | None = None
    prompt: int | None = None
    new_tokens: int | None = None
    swap: str = "none"
    storage: str = AS_IS
    board: str | None = None
    timeout: str = "2m"
    confirm: int | None = None
    killed: bool = False
    within: str | None = None

    @property
    def rounds(self) -> int:
        """Two where a slowdown is looked for, so that no time rests on a single one."""
        is_timed = self.slowdown is not None or parse_swap(self.swap)[0] != "none"
        return 2 if is_timed else 1

    @property
    def used_schedule(self) -> str:
        """The schedule that is run."""
        if self.new_tokens:
            return GENERATE
        engine = file_engine(self.network)
        if engine is None:
            return self.schedule or "bulk"
        return schedules_of(engine, [self.schedule] if self.schedule else None)[0]

    @property
    def used_loader(self) -> str:
        """The loader that is used."""
        engine = file_engine(self.network) or engine_of(None)
        return loaders_of(engine, [self.loader] if self.loader else None)[0]


@dataclass(frozen=True)
class ProgramRequest:
    """A program and its arguments. Sizes and durations as a scenario writes them.

    ``slowdown``: the factor that it may be slower by; None: 1.1.
    ``throughput``: the least that it must get done in a second, told from what it prints: lines,
    or the number of the one group of ``throughput_pattern``. ``files`` are evicted before each
    trial. ``stop_after`` ends a program that never ends; ``soak`` too, and is its only trial
    without a limit: no limit is searched for, but it is seen whether its memory levels off.
    ``reset`` is run before each trial, outside the limit. ``timeout`` and ``budget`` (of all
    trials together) are derived from the unlimited time where they are None.
    ``confirm``, ``killed`` and ``within`` as in :class:`MinimumRequest`. ``stdin``: file that is
    its input, opened anew for each trial.
    """

    command: tuple[str, ...]
    slowdown: float | None = None
    throughput: float | None = None
    throughput_pattern: str | None = None
    files: tuple[str, ...] = ()
    stop_after: str | None = None
    soak: str | None = None
    reset: tuple[str, ...] | None = None
    swap: str = "none"
    storage: str = AS_IS
    board: str | None = None
    timeout: str | None = None
    budget: str | None = None
    confirm: int | None = None
    killed: bool = False
    within: str | None = None
    stdin: str | None = None


_OF_NETWORKS, _OF_PROGRAMS = (
    {one.name for one in fields(request)} for request in (MinimumRequest, ProgramRequest)
)
#: What can be set of a network alone, and of a program alone.
NETWORK_KEYS = _OF_NETWORKS - _OF_PROGRAMS - {"network"}
PROGRAM_KEYS = _OF_PROGRAMS - _OF_NETWORKS - {"command", "stdin"}


def minimum_scenario(request: MinimumRequest) -> Scenario:
    """One workload, and every limit that may be tried.

    Raises:
        UsageError: a value is not possible; names the flag that sets it.
    """
    workload = inference_workload(request, rounds=request.rounds, warm=1)
    # A name that is none is refused there.
    workload["schedule"] = request.schedule or request.used_schedule
    if request.new_tokens:
        workload["schedule"] = request.schedule
    memory = ["max", *([request.within] if request.within else candidate_sizes())]
    limits = requested_limits(request, memory)
    return scenario_from_flags("minimum", workload, limits, repeats=1, timeout=request.timeout)


def program_scenario(request: ProgramRequest) -> Scenario:
    """Return the program, and every limit that may be tried.

    Raises:
        UsageError: a value is not possible; names the flag that sets it.
    """
    if request.soak and request.stop_after:
        raise UsageError("--soak already stops it", remedy="leave out --for")
    stop_after = request.stop_after or request.soak
    counted = request.throughput is not None or stop_after is not None
    workload = {
        "kind": "command",
        "command": list(request.command),
        "cwd": str(Path.cwd()),
        "stop_after": stop_after,
        "throughput": True if counted and not request.throughput_pattern else None,
        "throughput_pattern": request.throughput_pattern,
        "files": list(request.files) or None,
        "reset": list(request.reset) if request.reset else None,
        "stdin": request.stdin,
    }
    memory = ["max", *([request.within] if request.within else candidate_sizes())]
    limits = requested_limits(request, memory)
    return scenario_from_flags(
        "minimum", workload, limits, repeats=1, timeout=request.timeout or MinimumRequest.timeout
    )


def candidate_sizes() -> list[str]:
    """Return the limits that may be tried: all that can be told apart in print, up to the RAM."""
    most, size, found = psutil.virtual_memory().total, _LEAST_BYTES, []
    while size <= most:
        found.append(f"{size // 1024}K" if size % MIB else f"{size // MIB}M")
        size += _step(size)
    return found


def _step(size_bytes: int) -> int:
    """Return the step to the next size: an eighth of a MiB, a MiB, from 1 GiB on up to 1.6 %."""
    if size_bytes < 10 * MIB:
        return MIB // 8
    return MIB if size_bytes < 1024 * MIB else 1 << (size_bytes.bit_length() - 7)
