"""The kernel's multi-generation lists of pages."""

from __future__ import annotations

from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.remedies.base import KernelRemedy, RemedyTarget, registered_remedy


@registered_remedy
class PageGenerations(KernelRemedy):
    """Several generations of pages instead of two lists: the kernel knows better what is idle."""

    name = "page-generations"
    title = "the kernel keeps several generations of pages, and evicts the oldest"
    costs = "the kernel walks page tables: some time of the processor"
    source = "Documentation/admin-guide/mm/multigen_lru.rst"
    file, value = "/sys/kernel/mm/lru_gen/enabled", "y"

    def unfit(self, target: RemedyTarget) -> str | None:
        """A kernel before 6.1, or built without CONFIG_LRU_GEN, has none."""
        try:
            now = SystemFiles().number(self.file[1:])
        except UnreadableError:
            return "the kernel has no multi-generation lists (CONFIG_LRU_GEN)"
        return "the kernel has them already" if now else None
