"""Python's garbage collector does not walk over the heap between two steps."""

from __future__ import annotations

from edgebench.remedies.base import LINE, Remedy, RemedySetting, RemedyTarget, registered_remedy
from edgebench.workloads.memory_settings import DEFAULT, FROZEN


@registered_remedy
class FrozenCollector(Remedy):
    """A full collection reads every object of the heap, those that are swapped out too."""

    name = "frozen-collector"
    group = "runtime"
    title = "Python's garbage collector leaves what was there before the first round alone"
    costs = "garbage in cycles stays until a collection is asked for"
    source = "Python's gc.freeze"
    effort = LINE

    def unfit(self, target: RemedyTarget) -> str | None:
        """Rounds of edgebench's own are without collections unless a scenario says otherwise."""
        if target.kind == "command":
            return "edgebench can't set it in a program"
        return None if target.settings.get("gc") == DEFAULT else "it is frozen already"

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The setting ``gc``."""
        line = "import gc; gc.collect(); gc.freeze(); gc.disable()   # before the first round"
        return RemedySetting(settings={"gc": FROZEN}, code=(line,))
