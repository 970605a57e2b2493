"""glibc's allocator gives the free end of its heap back early."""

from __future__ import annotations

from edgebench.remedies.base import GlibcRemedy, registered_remedy


@registered_remedy
class TrimThreshold(GlibcRemedy):
    """By itself the threshold grows to twice that of mapped blocks, 64 MiB at the most."""

    name = "trim-threshold"
    title = "glibc gives the free end of its heap back to the kernel from 128 KiB on"
    costs = "more system calls, and pages that are zeroed again: slower where memory is no limit"
    source = "mallopt(3), M_TRIM_THRESHOLD"
    variables = (("MALLOC_TRIM_THRESHOLD_", "131072"),)
    promise = 1
