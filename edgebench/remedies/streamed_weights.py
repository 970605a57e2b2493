"""Weights kept in memory as far as they fit; the others are read once in each pass."""

from __future__ import annotations

from edgebench.layers.names import GENERATE, STREAM
from edgebench.remedies.base import REWRITE, Remedy, RemedySetting, RemedyTarget, registered_remedy
from edgebench.workloads.engines.registry import TORCH


@registered_remedy
class StreamRemedy(Remedy):
    """A network that is executed again and again reads all weights each time if some don't fit."""

    name = "stream"
    group = "order"
    title = "maps the weights, locks as many as fit, and reads only the others in each pass"
    costs = "next to nothing where all weights fit; to lock memory needs root, or ulimit -l raised"
    source = "edgebench's schedule stream; mlock(2); madvise(2); Belady (1966)"
    effort = REWRITE
    promise = 3

    def unfit(self, target: RemedyTarget) -> str | None:
        """Only a network whose weights are used again before they are loaded again."""
        if target.kind != "inference":
            return "edgebench does not order its layers"
        used = target.settings.get("schedule")
        if target.runtime != TORCH or used == GENERATE:
            return "edgebench does not load its weights layer by layer"
        if target.executions == 1:
            return "it uses its weights once each time they are loaded"
        return "it does so already" if used == STREAM else None

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The settings ``schedule`` and, as it maps weights, ``loader``."""
        line = "mlock the first layers' mapped weights; read each later layer's just before it runs"
        loader = {} if target.settings.get("loader") == "mmap" else {"loader": "mmap"}
        return RemedySetting(settings={"schedule": STREAM, **loader}, code=(line,))
