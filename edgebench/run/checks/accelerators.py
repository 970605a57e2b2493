"""Checks of accelerators: whether they can be used, and the memory of theirs that no cgroup has."""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import suppress

from edgebench.measures.machine.accelerators import SYSTEM_FIGURES, why_no_cuda
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.run.checks.base import CheckTarget, Observation, registered_check
from edgebench.units import format_size

_CARDS = ("dev/nvidia0", "dev/kfd")
#: Of boards whose GPU has no memory of its own.
_JETSON = ("dev/nvhost-gpu", "dev/nvgpu/igpu0")
_RASPBERRY_PI = ("dev/vchiq",)
#: NVIDIA's program for Jetsons; it prints a line every so many milliseconds until it is ended.
_TEGRASTATS, _EACH_MS, _PATIENCE_S = "tegrastats", 100, 2.0
_TEGRA_RAM = re.compile(r"\bRAM (\d+)/(\d+)MB")

GPU_REMEDY = (
    'limit it by itself: accelerator = "cuda" in [workload] and accelerator_memory in [limits] '
    "(docs/how-to/accelerators.md)"
)


@registered_check("CUDA")
def cuda_check(_: CheckTarget) -> Observation:
    """Whether networks can be executed and trained with ``accelerator = "cuda"``."""
    if why := why_no_cuda():
        raise UnreadableError(why[0])
    return Observation('torch is built with it and the driver has a GPU: accelerator = "cuda"')


@registered_check("GPU memory")
def gpu_memory_check(target: CheckTarget) -> Observation:
    """Tell whether a GPU shares the board's RAM: its memory is charged to no cgroup."""
    jetson, card = _first(target.machine, _JETSON), _first(target.machine, _CARDS)
    board = jetson or _first(target.machine, _RASPBERRY_PI)
    if card and not jetson:
        return Observation(f"{card}: no limit covers GPU memory, no peak counts it", GPU_REMEDY)
    if not board:
        raise UnreadableError("no GPU found")
    told = ", ".join(_figures(target.machine))
    says = f"{board}: it takes RAM that no limit covers and no peak counts"
    # On a Raspberry Pi nothing here computes on it: only a screen or a camera takes memory.
    return Observation(f"{says}; now {told}" if told else says, GPU_REMEDY if jetson else None)


def _first(machine: SystemFiles, patterns: tuple[str, ...]) -> str | None:
    found = (path for pattern in patterns for path in machine.each(pattern))
    return next((str(path) for path in found), None)


def _figures(machine: SystemFiles) -> list[str]:
    """Return what the whole machine tells of such memory."""
    told = []
    for name, figure in SYSTEM_FIGURES.items():
        with suppress(UnreadableError, ValueError):
            told.append(f"{name} {format_size(figure.read(machine))}")
    if (line := _tegrastats()) and (match := _TEGRA_RAM.search(line)):
        told.append(f"{_TEGRASTATS} {match[1]} of {match[2]} MB of RAM")
    return told


def _tegrastats() -> str | None:
    """Its first line; None where there is no such program, or it prints none."""
    if (program := shutil.which(_TEGRASTATS)) is None:
        return None
    command = ["timeout", f"{_PATIENCE_S:g}", program, "--interval", str(_EACH_MS)]
    nothing = subprocess.DEVNULL
    try:
        with subprocess.Popen(
            command, stdin=nothing, stdout=subprocess.PIPE, stderr=nothing, text=True
        ) as started:
            line = started.stdout.readline() if started.stdout else ""
            started.terminate()
    except OSError:
        return None
    return line or None
