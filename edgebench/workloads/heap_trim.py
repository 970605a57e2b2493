"""Free pages of glibc's heap, given back to the kernel after each round.

What is freed stays in the heap, and under a limit the kernel writes it to swap though nobody needs
it (malloc_trim(3)).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any


def heap_trimmer(settings: Mapping[str, Any]) -> Callable[[], None]:
    """What is to be called within each round, at its end, where ``malloc_trim`` asks for it.

    It does nothing otherwise, or where the C library has no such function.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if settings.get("malloc_trim") else None
    if trim is None:
        return _nothing

    def trimmed() -> None:
        trim(0)

    return trimmed


def _nothing() -> None:
    """Leave the heap as it is."""
