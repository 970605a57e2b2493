"""Spans of layers going forward and backward, by hooks that are set only where they are asked for.

Going backward, a layer's span begins when the gradient of its output is there, and lasts until the
next layer's is: what autograd does between two layers counts for the one it comes after.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from edgebench.workloads.recorder import Recorder

FORWARD, BACKWARD = "forward", "backward"


class LayerSpans:
    """Records each call of a leaf module as a layer of the phase under way.

    Args:
        network: whose leaves.
        name: the network's, in the spans.
        recorder: where spans go.
    """

    def __init__(self, network: nn.Module, name: str, recorder: Recorder) -> None:
        self.step = 0
        self._network = network
        self._name = name
        self._recorder = recorder
        self._phase: str | None = None
        self._calls = 0
        self._open = ExitStack()

    def watch(self) -> None:
        """Hook each leaf module."""
        for name, module in self._network.named_modules():
            if next(module.children(), None) is None:
                module.register_forward_pre_hook(self._before(name))
                module.register_forward_hook(self._after(name))

    @contextmanager
    def forward(self) -> Iterator[None]:
        """Layers called inside are going forward; their numbers begin at 0."""
        self._calls, self._phase = 0, FORWARD
        try:
            yield
        finally:
            self._phase = None

    @contextmanager
    def backward(self) -> Iterator[None]:
        """Layers whose gradients come inside are going backward."""
        # What checkpointing computes again meanwhile is part of going backward.
        self._phase = BACKWARD
        yield
        self._open.close()
        self._phase = None

    def _before(self, name: str) -> Any:
        def enter(module: nn.Module, inputs: Any) -> None:
            if self._phase == FORWARD:
                self._open.enter_context(self._span(FORWARD, self._calls, name))

        return enter

    def _after(self, name: str) -> Any:
        def leave(module: nn.Module, inputs: Any, output: Any) -> None:
            if self._phase != FORWARD:
                return
            self._open.close()
            number, self._calls = self._calls, self._calls + 1
            tensor = output[0] if isinstance(output, tuple) else output
            if isinstance(tensor, torch.Tensor) and tensor.grad_fn is not None:
                tensor.grad_fn.register_prehook(lambda gradients: self._backward(number, name))

        return leave

    def _backward(self, number: int, name: str) -> None:
        if self._phase == BACKWARD:
            self._open.close()
            self._open.enter_context(self._span(BACKWARD, number, name))

    def _span(self, phase: str, number: int, name: str) -> AbstractContextManager[None]:
        return self._recorder.span(
            phase, round=self.step, network=self._name, layer=number, name=name
        )
