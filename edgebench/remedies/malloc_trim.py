"""glibc's allocator gives all of its free pages back after each round or step."""

from __future__ import annotations

import platform

from edgebench.remedies.base import LINE, Remedy, RemedySetting, RemedyTarget, registered_remedy
from edgebench.workloads.engines.registry import TORCH


@registered_remedy
class MallocTrim(Remedy):
    """Once a round instead of at each free: fewer pages have to be zeroed again."""

    name = "malloc-trim"
    group = "allocator"
    title = "glibc gives the heap's free pages back to the kernel at the end of each round or step"
    costs = "pages are zeroed again in each round: slower where memory is no limit"
    source = "malloc_trim(3)"
    effort = LINE

    def unfit(self, target: RemedyTarget) -> str | None:
        """It is a call between rounds, which only glibc has."""
        if target.kind == "command":
            return "edgebench can't call it in a program"
        if target.kind == "inference" and target.runtime != TORCH:
            return f"edgebench does not call it in {target.runtime}"
        if platform.libc_ver()[0] != "glibc":
            return "the C library is not glibc"
        return "it does so already" if target.settings.get("malloc_trim") else None

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The setting ``malloc_trim``."""
        line = 'ctypes.CDLL("libc.so.6").malloc_trim(0)   # after each step'
        return RemedySetting(settings={"malloc_trim": True}, code=(line,))
