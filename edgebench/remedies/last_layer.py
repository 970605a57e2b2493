"""Training of the last layer alone."""

from __future__ import annotations

from edgebench.remedies.base import REWRITE, Remedy, RemedySetting, RemedyTarget, registered_remedy
from edgebench.workloads.engines.registry import TORCH
from edgebench.workloads.training.partial import LAST, WHOLE


@registered_remedy
class LastLayer(Remedy):
    """For networks that were trained before, on other data."""

    name = "last-layer"
    group = "training"
    title = "trains the last layer alone: no gradients, state or activations of the others"
    costs = "nothing: a step is faster; but the network learns less"
    source = "Yosinski et al., How transferable are features in deep neural networks? (2014)"
    effort = REWRITE
    changes = "what is learnt: all layers but the last stay as they are"
    lossy = True

    def unfit(self, target: RemedyTarget) -> str | None:
        """PyTorch alone has it."""
        if target.kind != "training" or target.runtime != TORCH:
            return "it is no training in PyTorch"
        return None if target.settings["trained"] == WHOLE else "a part alone is trained already"

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The setting ``trained``."""
        line = "network.requires_grad_(False); network.fc.requires_grad_(True)"
        return RemedySetting(settings={"trained": LAST}, code=(line,))
