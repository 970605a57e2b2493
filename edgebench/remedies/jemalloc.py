"""jemalloc in place of the C library's allocator."""

from __future__ import annotations

from edgebench.remedies.base import registered_remedy
from edgebench.remedies.preloaded import PreloadedAllocator


@registered_remedy
class JemallocRemedy(PreloadedAllocator):
    """Without the variables it gives pages back some seconds after they are freed."""

    name = "jemalloc"
    title = "jemalloc allocates, and gives pages back at once"
    costs = "pages are zeroed again: slower where memory is no limit"
    source = "jemalloc's TUNING.md, dirty_decay_ms"
    library, package = "jemalloc", "libjemalloc2"
    variables = (("MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0"),)
