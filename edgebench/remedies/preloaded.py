"""Allocators that take the place of the C library's, by ``LD_PRELOAD``."""

from __future__ import annotations

from ctypes.util import find_library
from functools import cache
from typing import ClassVar

from edgebench.remedies.base import LINE, RemedySetting, RemedyTarget, VariableRemedy

_PRELOAD = "LD_PRELOAD"


class PreloadedAllocator(VariableRemedy):
    """An allocator's library; ``package`` is Debian's, ``library`` as the linker is asked for it.

    ``variables`` are the allocator's own.
    """

    effort = LINE
    promise = 1
    library: ClassVar[str]
    package: ClassVar[str]

    def unfit(self, target: RemedyTarget) -> str | None:
        """It is not installed, or something is preloaded already."""
        if _file_of(self.library) is None:
            return f"{self.library} is not installed: apt install {self.package}"
        if _PRELOAD in target.environment:
            return f"{_PRELOAD} is set already"
        return super().unfit(target)

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The library, and how soon it gives memory back."""
        return RemedySetting(env={_PRELOAD: _file_of(self.library) or "", **dict(self.variables)})


@cache
def _file_of(library: str) -> str | None:
    """The library's file name, which the linker finds by itself; None: there is none."""
    return find_library(library)
