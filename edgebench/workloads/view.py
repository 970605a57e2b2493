"""What a strategy sees from inside the worker, in a trial of its own.

The harness names the view in the worker's environment: timed trials have none and pay nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from edgebench.measures.inside import (
    CATEGORIES,
    CORES,
    FOLDER_VARIABLE,
    MEMRAY,
    OPERATORS,
    PROCESS,
    TCMALLOC,
    TORCH,
    VIEW_VARIABLE,
)

if TYPE_CHECKING:
    from edgebench.workloads.events import Descriptors


class View(Protocol):
    """Called by the recorder at each boundary of a span, under its lock."""

    #: Figures that the workload lets it read, name → bytes.
    gauges: dict[str, Callable[[], int]]

    def mark(self) -> int | None:
        """Its own high-water mark since the last reset, bytes; None if it has none."""

    def look(self, whole: bool) -> dict[str, int]:
        """What it sees now, for the event. ``whole``: the span is a phase, not a layer in it."""

    def reset(self) -> None:
        """Set its mark back."""

    def close(self) -> None:
        """The workload is through."""


@runtime_checkable
class Holding(Protocol):
    """A view that is told what is held where."""

    def holds(self, category: str, addresses: Iterable[int]) -> None:
        """What was allocated at these addresses is of this category."""

    def holds_itself(self, category: str, size_bytes: int) -> None:
        """So many bytes of this category were allocated past the allocator it sees."""


def view_of(environment: Mapping[str, str], descriptors: Descriptors) -> View | None:
    """The view that this trial's strategy asks for; None in a timed trial."""
    name = environment.get(VIEW_VARIABLE)
    if name == PROCESS:
        from edgebench.workloads.process_view import ProcessView

        return ProcessView(descriptors["stat"], descriptors["kernel"])
    if name == TORCH:
        from edgebench.workloads.torch_view import TorchView

        return TorchView(Path(environment[FOLDER_VARIABLE]))
    if name == OPERATORS:
        from edgebench.workloads.operator_view import OperatorView

        return OperatorView(Path(environment[FOLDER_VARIABLE]))
    if name == CORES:
        from edgebench.workloads.cores_view import CoresView

        return CoresView()
    if name == CATEGORIES:
        from edgebench.workloads.categories_view import CategoriesView

        return CategoriesView(Path(environment[FOLDER_VARIABLE]), descriptors)
    if name == TCMALLOC:
        from edgebench.workloads.tcmalloc_view import TcmallocView

        return TcmallocView(Path(environment[FOLDER_VARIABLE]))
    if name == MEMRAY:
        from edgebench.workloads.memray_view import MemrayView

        return MemrayView(Path(environment[FOLDER_VARIABLE]))
    return None
