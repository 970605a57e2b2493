"""Activations computed again in the backward pass."""

from __future__ import annotations

from edgebench.remedies.base import REWRITE, Remedy, RemedySetting, RemedyTarget, registered_remedy
from edgebench.workloads.engines.registry import TORCH
from edgebench.workloads.training.names import LSTM


@registered_remedy
class Checkpointing(Remedy):
    """Of each block only its input is kept until the backward pass."""

    name = "checkpointing"
    group = "training"
    title = "drops activations, and computes them again in the backward pass"
    costs = "about a third more time where memory is no limit: a second forward pass"
    source = "Chen et al., Training Deep Nets with Sublinear Memory Cost (2016)"
    effort = REWRITE
    changes = "running averages of batch normalisation, which see each batch twice"

    def unfit(self, target: RemedyTarget) -> str | None:
        """PyTorch alone has it, and only blocks can be computed again."""
        if target.kind != "training" or target.runtime != TORCH:
            return "it is no training in PyTorch"
        if target.settings["network"] == LSTM:
            return "an lstm has no blocks to checkpoint"
        return "it does so already" if target.settings.get("checkpointing") else None

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The setting ``checkpointing``."""
        line = "x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)"
        return RemedySetting(settings={"checkpointing": True}, code=(line,))
