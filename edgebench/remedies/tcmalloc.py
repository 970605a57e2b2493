"""gperftools' tcmalloc in place of the C library's allocator."""

from __future__ import annotations

from edgebench.remedies.base import registered_remedy
from edgebench.remedies.preloaded import PreloadedAllocator


@registered_remedy
class TcmallocRemedy(PreloadedAllocator):
    """Without the variable it gives few pages back."""

    name = "tcmalloc"
    title = "tcmalloc allocates, and gives pages back at once"
    costs = "pages are zeroed again: slower where memory is no limit"
    source = "gperftools, src/page_heap.cc, TCMALLOC_AGGRESSIVE_DECOMMIT"
    library, package = "tcmalloc_minimal", "libtcmalloc-minimal4"
    variables = (("TCMALLOC_AGGRESSIVE_DECOMMIT", "1"),)
