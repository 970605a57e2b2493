"""Weights and activations of inference in numbers of half the size."""

from __future__ import annotations

from typing import ClassVar

from edgebench.layers.names import STREAM
from edgebench.remedies.base import LINE, Remedy, RemedySetting, RemedyTarget, registered_remedy
from edgebench.workloads.engines.registry import TORCH

_COPIED = "copy"


class HalfWeights(Remedy):
    """A type of half the size; the files stay as they are, and are read as a whole."""

    group = "weights"
    effort = LINE
    lossy = True
    precision: ClassVar[str]
    #: What does the same in a program; empty: converting the network.
    line: ClassVar[str] = ""

    def unfit(self, target: RemedyTarget) -> str | None:
        """PyTorch alone has it, and nobody has chosen a type yet."""
        if target.kind != "inference" or target.runtime != TORCH:
            return "it is no inference in PyTorch"
        if target.settings.get("schedule") == STREAM:
            return "the schedule stream reads weights as they are in their files"
        return "a precision is chosen already" if target.settings.get("precision") else None

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The setting ``precision``, and weights in memory: in their file they are larger."""
        copied = target.settings.get("loader") == _COPIED
        loader = {} if copied else {"loader": _COPIED}
        line = self.line or f"network.to(torch.{self.precision})   # the input too"
        return RemedySetting(settings={"precision": self.precision, **loader}, code=(line,))


@registered_remedy
class Bfloat16Weights(HalfWeights):
    """The range of float32 with fewer digits."""

    name = "bfloat16-weights"
    title = "holds weights and activations in bfloat16: half the memory"
    costs = "slower on a processor without instructions for it"
    source = "torch.nn.Module.bfloat16"
    changes = "outputs: about three digits are left of each value"
    tolerance = 0.1
    precision = "bfloat16"


@registered_remedy
class Float16Weights(HalfWeights):
    """More digits than bfloat16, but a small range: large values become infinite."""

    name = "float16-weights"
    title = "holds weights and activations in float16: half the memory"
    costs = "much slower on a processor without instructions for it"
    source = "torch.nn.Module.half"
    changes = "outputs: about four digits are left of each value"
    tolerance = 0.02
    precision = "float16"
