"""glibc's allocator gives large blocks back as soon as they are freed."""

from __future__ import annotations

from edgebench.remedies.base import GlibcRemedy, registered_remedy


@registered_remedy
class MmapThreshold(GlibcRemedy):
    """By itself the threshold grows to 32 MiB: what is freed below it stays in the heap."""

    name = "mmap-threshold"
    title = "glibc gives blocks of 128 KiB and more back to the kernel when they are freed"
    costs = "the kernel maps and zeroes each such block again: slower where memory is no limit"
    source = "mallopt(3), M_MMAP_THRESHOLD"
    variables = (("MALLOC_MMAP_THRESHOLD_", "131072"),)
    promise = 1


@registered_remedy
class LargerMmapThreshold(GlibcRemedy):
    """Smaller blocks stay in the heap, so that less is mapped and zeroed again."""

    name = "mmap-threshold-1m"
    title = "glibc gives blocks of 1 MiB and more back to the kernel when they are freed"
    costs = "the kernel maps and zeroes each such block again: slower where memory is no limit"
    source = "mallopt(3), M_MMAP_THRESHOLD"
    variables = (("MALLOC_MMAP_THRESHOLD_", "1048576"),)
