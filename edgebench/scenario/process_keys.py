"""Keys of a scenario about the worker's process, the same for inference and training."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

from pydantic import Field

#: Threads for operators that run beside each other.
InteropThreads = Annotated[int, Field(ge=1, le=1024)] | None


class HasProcessKeys(Protocol):
    """A table with them; None leaves the process as it is."""

    malloc_trim: bool | None
    interop_threads: InteropThreads
    huge_pages: bool | None


def process_settings(table: HasProcessKeys) -> dict[str, Any]:
    """What a worker is told; later keys, without which settings stay as they were."""
    found: dict[str, Any] = {"malloc_trim": True} if table.malloc_trim else {}
    if table.interop_threads is not None:
        found["interop_threads"] = table.interop_threads
    return found | ({"huge_pages": False} if table.huge_pages is False else {})
