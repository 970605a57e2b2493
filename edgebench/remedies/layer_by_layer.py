"""Schedules that hold few layers' weights at a time."""

from __future__ import annotations

from edgebench.layers.names import ADMISSION, GENERATE
from edgebench.remedies.base import REWRITE, Remedy, RemedySetting, RemedyTarget, registered_remedy
from edgebench.workloads.engines.registry import TORCH


class _OtherSchedule(Remedy):
    """A schedule in place of another one."""

    group = "order"
    effort = REWRITE
    schedule: str
    line: str

    def unfit(self, target: RemedyTarget) -> str | None:
        """Only a network that is loaded by layer can change its order."""
        if target.kind != "inference":
            return "edgebench does not order its layers"
        used = target.settings.get("schedule")
        if used == GENERATE:
            return "it makes one token after the other of the same weights"
        if target.runtime != TORCH:
            return f"{target.runtime} loads it as a whole"
        return "it does so already" if used == self.schedule else None

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The setting ``schedule``: it loads anew for each execution."""
        often = target.executions
        settings = {"schedule": self.schedule, **({"warm": 0} if often > 1 else {})}
        return RemedySetting(settings=settings, code=(self.line,), work=1 / often)


@registered_remedy
class LayerByLayer(_OtherSchedule):
    """The least memory: one layer's weights."""

    name = "layer-by-layer"
    title = "loads a layer, executes it and frees it before the next one"
    costs = "weights are read from storage in every pass, even where they would fit"
    source = "edgebench's schedule linear; accelerate's cpu_offload does the same"
    schedule = "linear"
    line = "for each layer: load its weights, run it, delete them"


@registered_remedy
class LoadsWhatFits(_OtherSchedule):
    """Loading runs ahead of execution as far as the limit lets it."""

    name = "load-what-fits"
    title = "loads layers ahead while the limit has room, and frees each after its execution"
    costs = "weights are read from storage in every pass, even where they would fit"
    source = "edgebench's schedule admission"
    schedule = ADMISSION
    line = "in a second thread: load the next layers' weights while they fit beside this one"
