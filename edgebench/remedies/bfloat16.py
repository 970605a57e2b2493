"""Training in numbers of half the size."""

from __future__ import annotations

from edgebench.remedies.base import REWRITE, Remedy, RemedySetting, RemedyTarget, registered_remedy
from edgebench.workloads.engines.registry import TORCH


@registered_remedy
class Bfloat16(Remedy):
    """Parameters, gradients, the optimizer's state and activations take half the memory."""

    name = "bfloat16"
    group = "training"
    title = "trains in bfloat16: all tensors are half as large"
    costs = "slower on a processor without instructions for it"
    source = "torch.nn.Module.bfloat16"
    effort = REWRITE
    changes = "results: about three digits are left of each value"
    lossy = True

    def unfit(self, target: RemedyTarget) -> str | None:
        """PyTorch alone has it."""
        if target.kind != "training" or target.runtime != TORCH:
            return "it is no training in PyTorch"
        return None if target.settings["precision"] == "float32" else "it does so already"

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The setting ``precision``."""
        line = "network.to(torch.bfloat16)   # before the optimizer is made; the images too"
        return RemedySetting(settings={"precision": "bfloat16"}, code=(line,))
