"""Which pages the kernel takes first: those of files, or those of the heap."""

from __future__ import annotations

from edgebench.remedies.base import KernelRemedy, registered_remedy


@registered_remedy
class Swappiness(KernelRemedy):
    """For swap that is faster than the disk of the files."""

    name = "swappiness"
    title = "swaps the heap out before it drops pages of files"
    costs = "idle programs are swapped out sooner"
    source = "Documentation/admin-guide/sysctl/vm.rst, swappiness"
    file, value = "/proc/sys/vm/swappiness", "100"
