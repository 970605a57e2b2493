"""The words that scenarios and verbs let people choose from; light, for any verb to read."""

from __future__ import annotations

#: How a schedule interleaves loading and executing layers (:mod:`edgebench.layers.schedules`).
SCHEDULES = ("linear", "bulk", "partial", "deepeye")
#: Into what memory weights are loaded (:mod:`edgebench.layers.loaders`).
LOADERS = ("copy", "mmap")
#: Where memory goes that a limit pushes out (:mod:`edgebench.cgroups.swap`).
SWAP_KINDS = ("none", "file", "zram", "system")
