"""Weights of linear layers in a quarter of their size."""

from __future__ import annotations

from edgebench.layers.names import CUDA, INT8
from edgebench.remedies.base import RemedyTarget, registered_remedy
from edgebench.remedies.half_weights import HalfWeights


@registered_remedy
class Int8Weights(HalfWeights):
    """Dynamic quantisation: no data are needed to calibrate it. Convolutions stay as they are."""

    name = "int8-weights"
    title = "holds the weights of linear layers in integers of one byte: a quarter of the memory"
    costs = "activations are converted in each execution"
    source = "PyTorch's dynamic quantisation, torch.ao.quantization.quantize_dynamic"
    changes = "outputs: about two digits are left of each value"
    tolerance = 0.1
    precision = INT8
    line = "torch.ao.quantization.quantize_dynamic(network, {torch.nn.Linear})"

    def unfit(self, target: RemedyTarget) -> str | None:
        """Products of integers are the processor's here."""
        if target.settings.get("accelerator") == CUDA:
            return "it is computed on the accelerator"
        return super().unfit(target)
