"""A batch in parts, whose gradients are added up."""

from __future__ import annotations

from edgebench.remedies.base import REWRITE, Remedy, RemedySetting, RemedyTarget, registered_remedy

#: So many parts, if the batch can be cut so; the most that divides it.
_PARTS = (4, 3, 2)


@registered_remedy
class Accumulation(Remedy):
    """Activations of one part alone are held at a time."""

    name = "accumulation"
    group = "training"
    title = "trains on a batch in parts, and adds up their gradients"
    costs = "smaller parts use cores and caches less well"
    source = "PyTorch's automatic mixed precision examples, gradient accumulation"
    effort = REWRITE
    changes = "batch normalisation, which sees each part alone; the last digits of gradients"

    def unfit(self, target: RemedyTarget) -> str | None:
        """A batch that can't be cut, or a step that is compiled as a whole."""
        if target.kind != "training":
            return "it is no training"
        if target.settings.get("compiled"):
            return "a compiled step trains on its batch as a whole"
        return None if _parts(target) else "its batch can't be cut into equal parts"

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The setting ``accumulation``."""
        parts = _parts(target)
        line = f"backward for each of {parts} parts of the batch, then one optimizer.step()"
        return RemedySetting(settings={"accumulation": parts}, code=(line,))


def _parts(target: RemedyTarget) -> int:
    """Parts of the batch in all; 0: no further cut is possible."""
    now = int(target.settings.get("accumulation") or 1)
    size = int(target.settings["batch"]) // now
    return next((now * parts for parts in _PARTS if size >= parts and size % parts == 0), 0)
