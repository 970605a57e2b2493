"""Whose least limits are searched for: of a network or of any program; and their scenarios."""

from __future__ import annotations

import math
from dataclasses import dataclass
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
from edgebench.workloads.engines.registry import engine_of, file_engine

#: A network's candidates: from this share of the demand down, each so much of the last.
_WIDEST, _STEP, _COUNT = 1.3, 1.024, 150
#: A program's candidates are sizes from here up to the machine's memory.
_LEAST_BYTES = MIB
#: What can be set of a program alone.
PROGRAM_KEYS = (
    "throughput",
    "throughput_pattern",
    "files",
    "stop_after",
    "soak",
    "reset",
    "budget",
)
#: The slowdown that is searched for where there is swap, if no other is asked for.
USUAL_SLOWDOWN = 2.0


@dataclass(frozen=True)
class MinimumRequest:
    """A network. ``swap``, ``storage``, ``board``, ``timeout`` and ``within`` as in a scenario.

    ``slowdown``: the factor that a round may be slower by; None: 2 with swap, else viability
    alone. ``killed``: also where it is killed, though the swap can hold all that it needs.
    ``schedule``: None is ``bulk``, and ``whole`` for a file; ``loader``: None is what a plain
    program does. ``confirm``: how many further trials
    the least viable limit must finish. ``new_tokens``: how many a language model generates after a
    ``prompt`` of so many tokens; None: one forward pass. ``within``: the only limit that is tried;
    None searches.
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
    confirm: int = 3
    killed: bool = False
    within: str | None = None

    @property
    def allowed_slowdown(self) -> float | None:
        """The factor, as asked for or as usual."""
        return self.slowdown or _usual_slowdown(self.swap, self.within)

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

    ``slowdown``: the factor that it may be slower by; None: 2 with swap, else viability alone.
    ``throughput``: the least that it must get done in a second, told from what it prints: lines,
    or the number of the one group of ``throughput_pattern``. ``files`` are evicted before each
    trial. ``stop_after`` ends a program that never ends; ``soak`` too, and is its only trial
    without a limit: no limit is searched for, but it is seen whether its memory levels off.
    ``reset`` is run before each trial, outside the limit. ``timeout`` and ``budget`` (of all
    trials together) are derived from the unlimited time where they are None.
    ``confirm``, ``killed`` and ``within`` as in :class:`MinimumRequest`.
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
    confirm: int = 3
    killed: bool = False
    within: str | None = None

    @property
    def allowed_slowdown(self) -> float | None:
        """The factor, as asked for or as usual."""
        if self.slowdown or self.throughput:
            return self.slowdown
        return _usual_slowdown(self.swap, self.within)


def _usual_slowdown(swap: str, within: str | None) -> float | None:
    """What is asked for where nobody says it: nothing without swap, which kills first."""
    swapless = parse_swap(swap)[0] == "none"
    return None if swapless or within else USUAL_SLOWDOWN


def shares() -> list[str]:
    """The limits that may be tried, as shares of the demand."""
    return [f"{100 * _WIDEST / _STEP**n:.2f}%" for n in range(_COUNT)]


def minimum_scenario(request: MinimumRequest) -> Scenario:
    """One workload, and every limit that may be tried as a share of its demand.

    Raises:
        UsageError: a value is not possible; names the flag that sets it.
    """
    # Two rounds, so that no time rests on a single one.
    rounds = 1 if request.allowed_slowdown is None else 2
    workload = inference_workload(request, rounds=rounds, warm=1)
    # A name that is none is refused there.
    workload["schedule"] = request.schedule or request.used_schedule
    if request.new_tokens:
        workload["schedule"] = request.schedule
    memory = ["max", request.within] if request.within else shares()
    limits = requested_limits(request, memory)
    return scenario_from_flags("minimum", workload, limits, repeats=1, timeout=request.timeout)


def program_scenario(request: ProgramRequest) -> Scenario:
    """The program, and every limit that may be tried as a size.

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
    }
    memory = ["max", *([request.within] if request.within else _sizes())]
    limits = requested_limits(request, memory)
    return scenario_from_flags(
        "minimum", workload, limits, repeats=1, timeout=request.timeout or MinimumRequest.timeout
    )


def _sizes() -> list[str]:
    """From one MiB to the machine's memory, in KiB while a MiB would be too coarse."""
    count = int(math.log(psutil.virtual_memory().total / _LEAST_BYTES) / math.log(_STEP))
    found = (_LEAST_BYTES * _STEP**n for n in range(count + 1))
    return list(dict.fromkeys(_label(size) for size in found))


def _label(size_bytes: float) -> str:
    if size_bytes >= 64 * MIB:
        return f"{round(size_bytes / MIB)}M"
    return f"{round(size_bytes / 4096) * 4}K"
