"""TensorFlow's own allocations, from its allocator's figures, in a trial of its own.

On a CPU TensorFlow tells no figures: its answer is 0, except where the best-fit allocator is asked
for by ``TF_CPU_ALLOCATOR_USE_BFC``. So that one is used in this trial alone. It never gives memory
back to the kernel; nor does the usual one where TensorFlow computes with oneDNN.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgebench.measures.strategy import ErrorBar, LookStrategy, TrialData, registered_strategy
from edgebench.measures.view import View

LIBRARY = "tensorflow"
#: In the view's figures: what is allocated.
_IN_USE = "tensorflow_bytes"
_DEVICE = "CPU:0"
_COUNTING = {"TF_CPU_ALLOCATOR_USE_BFC": "1"}
_ROUNDED = "an allocation counts as the chunk that it gets, which may be up to twice as large"
_NOTHING = "TensorFlow's allocator told no figures of the CPU's memory: this version keeps none"


class TensorflowView(View):
    """Reads the allocator's bytes in use at each boundary, and its mark, which is then reset."""

    def mark(self) -> int | None:
        """The most in use since the last boundary."""
        return self._figures().get("peak")

    def look(self, whole: bool) -> dict[str, int]:
        """The bytes in use; nothing before TensorFlow is imported."""
        return {_IN_USE: figures["current"]} if (figures := self._figures()) else {}

    def reset(self) -> None:
        """Let the mark begin at what is in use."""
        if LIBRARY in sys.modules:
            import tensorflow as tf

            tf.config.experimental.reset_memory_stats(_DEVICE)

    @staticmethod
    def _figures() -> dict[str, int]:
        if LIBRARY not in sys.modules:
            return {}
        import tensorflow as tf

        figures: dict[str, int] = tf.config.experimental.get_memory_info(_DEVICE)
        return figures


@registered_strategy
class TensorflowAllocations(LookStrategy):
    """What TensorFlow's CPU allocator has handed out and not got back."""

    name = "tensorflow"
    title = "TensorFlow's allocations"
    counts = "tensors and workspace that TensorFlow's CPU allocator handed out"
    blind_to = (
        "all memory not from TensorFlow's allocator: Python, NumPy's arrays, the libraries' own "
        "data and buffers; what the allocator keeps free; whether a byte was ever touched"
    )
    own_trial = True
    view = TensorflowView
    inside_worker = True
    library = LIBRARY
    figures, marked = (_IN_USE,), True
    span_method = "its allocator's mark, reset at the span's start"
    nothing = _NOTHING

    def wrap(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path
    ) -> tuple[list[str], dict[str, str]]:
        """With the allocator that keeps figures."""
        command, variables = super().wrap(command, env, folder)
        return list(command), {**variables, **_COUNTING}

    def error(self, trial: TrialData) -> ErrorBar:
        """What the allocator rounds up."""
        return ErrorBar(None, _ROUNDED)
