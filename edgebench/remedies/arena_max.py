"""glibc's allocator has one heap for all threads."""

from __future__ import annotations

from edgebench.remedies.base import GlibcRemedy, registered_remedy


@registered_remedy
class ArenaMax(GlibcRemedy):
    """By itself it makes up to eight heaps a core, and what is free in one serves no other."""

    name = "arena-max"
    title = "glibc keeps one heap for all threads"
    costs = "threads wait for each other where they allocate at the same time"
    source = "mallopt(3), M_ARENA_MAX"
    variables = (("MALLOC_ARENA_MAX", "1"),)
