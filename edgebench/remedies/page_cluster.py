"""How many pages the kernel reads from swap at once."""

from __future__ import annotations

from edgebench.remedies.base import KernelRemedy, registered_remedy


@registered_remedy
class PageCluster(KernelRemedy):
    """With 3, as usual, eight pages are read for one that is asked for."""

    name = "page-cluster"
    title = "reads one page from swap for each that is asked for, not eight"
    costs = "slower where neighbouring pages are needed next"
    source = "Documentation/admin-guide/sysctl/vm.rst, page-cluster"
    file, value = "/proc/sys/vm/page-cluster", "0"
