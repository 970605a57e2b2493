"""What a strategy reads inside the worker, in a trial of its own.

The harness names the view's class in the worker's environment, so the worker imports the module of
that one strategy. A timed trial has no view and imports no strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TypedDict

#: Variables of the worker's environment: ``module:class`` of the view, and the folder that it may
#: write to.
VIEW_VARIABLE, FOLDER_VARIABLE = "EDGEBENCH_VIEW", "EDGEBENCH_VIEW_FOLDER"


class Descriptors(TypedDict):
    """Open descriptors the worker inherits; None where the kernel has no such file.

    ``swap`` reads memory + swap together when ``swap_is_memsw``. ``peak`` is open for reading
    and writing; a non-empty write resets it when ``peak_resets``. ``stat`` reads ``memory.stat``;
    ``kernel`` the kernel's memory where that has no line for it (version 1). ``control`` is open
    for reading and writing in a walk, whose rounds the harness starts one by one. ``records`` is
    memory of the harness that holds what is not written yet
    (:mod:`edgebench.workloads.events`). ``swap_io`` reads what is moved to swap and back, in
    the form that ``swap_kind`` names (the same module).
    """

    events: int
    usage: int | None
    peak: int | None
    peak_resets: bool
    swap: int | None
    swap_is_memsw: bool
    stat: int | None
    kernel: int | None
    control: int | None
    records: int | None
    swap_io: int | None
    swap_kind: str


class View:
    """Reads at each boundary of a span what a strategy needs; the recorder calls it under its lock.

    This class reads nothing: a strategy overrides what it needs.

    Args:
        folder: where it may write files.
        descriptors: what the harness opened.
    """

    def __init__(self, folder: Path, descriptors: Descriptors) -> None:
        #: Figures that the workload provides, name → function that reads it, bytes.
        self.gauges: dict[str, Callable[[], int]] = {}

    def mark(self) -> int | None:
        """Read its own high-water mark since the last reset, bytes; None if it has none."""
        return None

    def look(self, whole: bool) -> dict[str, int]:
        """Read the figures of this moment, for the event. ``whole``: the span is a whole phase."""
        return {}

    def reset(self) -> None:
        """Reset its high-water mark."""

    @property
    def profile_folder(self) -> Path | None:
        """Where an engine may write its own profile; None: it isn't to measure operators."""
        return None

    def operator_time(self, phase: str, operator: str, calls: int, own_ns: int) -> None:
        """Take from an engine's own profiler how long its operators took."""

    def close(self) -> None:
        """End: the workload has."""


def view_of(environment: Mapping[str, str], descriptors: Descriptors) -> View | None:
    """Open the view that this trial's strategy needs; None in a timed trial."""
    named = environment.get(VIEW_VARIABLE)
    if named is None:
        return None
    module, _, name = named.partition(":")
    view: type[View] = getattr(import_module(module), name)
    return view(Path(environment[FOLDER_VARIABLE]), descriptors)
