"""Half the batch in each step."""

from __future__ import annotations

from edgebench.remedies.base import REWRITE, Remedy, RemedySetting, RemedyTarget, registered_remedy


@registered_remedy
class SmallerBatch(Remedy):
    """Its time is compared for the same number of examples: of two steps for one."""

    name = "half-batch"
    group = "training"
    title = "trains on half a batch in each step"
    costs = "twice as many updates for the same examples"
    source = "docs/studies/cnn-batch.md"
    effort = REWRITE
    changes = "what is learnt: twice as many steps, each on noisier gradients"
    lossy = True

    def unfit(self, target: RemedyTarget) -> str | None:
        """Half of it must be a whole number that accumulation divides."""
        if target.kind != "training":
            return "it is no training"
        parts = int(target.settings.get("accumulation") or 1)
        return None if int(target.settings["batch"]) % (2 * parts) == 0 else "its batch is not even"

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The setting ``batch``."""
        half = int(target.settings["batch"]) // 2
        line = f"batch_size={half}"
        return RemedySetting(settings={"batch": half}, code=(line,), work=0.5)
