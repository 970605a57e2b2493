"""A PyTorch network under training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn, optim

from edgebench.errors import WorkloadError
from edgebench.layers.accelerator import is_memory_error
from edgebench.workloads.recorder import Recorder
from edgebench.workloads.training.backend import CountOfRight, Images, Labels, Problem, Settings
from edgebench.workloads.training.names import MOMENTUM
from edgebench.workloads.training.own_code import NETWORK, own_loss, own_reference
from edgebench.workloads.training.pytorch.losses import (
    check_gradient,
    cross_entropy,
    own_loss_function,
    right_labels,
)
from edgebench.workloads.training.pytorch.networks import channels_read
from edgebench.workloads.training.pytorch.partial_training import partial_training

_FORWARD, _BACKWARD = "forward", "backward"


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
        self._calls, self._phase = 0, _FORWARD
        try:
            yield
        finally:
            self._phase = None

    @contextmanager
    def backward(self) -> Iterator[None]:
        """Layers whose gradients come inside are going backward."""
        # What checkpointing computes again meanwhile is part of going backward.
        self._phase = _BACKWARD
        yield
        self._open.close()
        self._phase = None

    def _before(self, name: str) -> Any:
        def enter(module: nn.Module, inputs: Any) -> None:
            if self._phase == _FORWARD:
                self._open.enter_context(self._span(_FORWARD, self._calls, name))

        return enter

    def _after(self, name: str) -> Any:
        def leave(module: nn.Module, inputs: Any, output: Any) -> None:
            if self._phase != _FORWARD:
                return
            self._open.close()
            number, self._calls = self._calls, self._calls + 1
            tensor = output[0] if isinstance(output, tuple) else output
            if isinstance(tensor, torch.Tensor) and tensor.grad_fn is not None:
                tensor.grad_fn.register_prehook(lambda gradients: self._backward(number, name))

        return leave

    def _backward(self, number: int, name: str) -> None:
        if self._phase == _BACKWARD:
            self._open.close()
            self._open.enter_context(self._span(_BACKWARD, number, name))

    def _span(self, phase: str, number: int, name: str) -> AbstractContextManager[None]:
        return self._recorder.span(
            phase, round=self.step, network=self._name, layer=number, name=name
        )


class TorchBatch(NamedTuple):
    """Images as the network's numbers, and their labels."""

    images: torch.Tensor
    labels: torch.Tensor


class TorchResult(NamedTuple):
    """What a forward pass came to."""

    loss: torch.Tensor
    right: CountOfRight


class TorchNetwork:
    """As :class:`edgebench.workloads.training.backend.TrainedNetwork` says.

    ``network`` and ``optimizer`` are torch's own; the latter is None where nothing is trained.
    """

    def __init__(
        self, network: nn.Module, settings: Settings, problem: Problem, recorder: Recorder
    ) -> None:
        self.network = network
        self._settings = settings
        self._problem = problem
        follows = recorder.accelerator
        self._accelerator = follows.accelerator if follows else None
        self._is_own = own_reference(settings, NETWORK) is not None
        self._channels = channels_read(settings["network"], problem)
        own = own_loss(settings)
        self._loss = own_loss_function(own) if own else cross_entropy
        self._number_type = next(network.parameters()).dtype
        self._freezing = partial_training(network, settings)
        self._parameters = self._freezing.parameters
        self.optimizer = make_optimizer(
            settings["optimizer"], settings["learning_rate"], self._parameters
        )
        self._spans = LayerSpans(network, settings["network"], recorder)
        if settings["per_layer"]:
            self._spans.watch()

    def batch(self, images: Images, labels: Labels) -> TorchBatch:
        """Bytes as numbers of 0 … 1; other numbers as they are, in the network's precision."""
        numbers = self._moved(torch.from_numpy(images))
        if numbers.dtype == torch.uint8:
            # In place: a batch never stands in memory twice as numbers.
            numbers = numbers.to(self._number_type).div_(self._problem.brightest)
        elif numbers.is_floating_point():
            numbers = numbers.to(self._number_type)
        if not self._is_own:
            # A grey image is all three colours at once, in the memory of one.
            numbers = numbers.expand(-1, self._channels, -1, -1)
        return TorchBatch(numbers, self._moved(torch.from_numpy(labels)))

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        """Where the network computes."""
        return self._accelerator.to_accelerator(tensor) if self._accelerator else tensor

    def begin(self, step: int) -> None:
        """Layers' spans are of this step from now on; what it trains is drawn."""
        self._spans.step = step
        self._freezing.draw()

    def forward(self, batch: TorchBatch, share: float) -> TorchResult:
        """The network's outputs, and their loss.

        Raises:
            WorkloadError: the network can't take such images, or there is no loss of its outputs.
        """
        with self._spans.forward():
            outputs = self._outputs(batch)
            loss = self._loss(outputs, batch.labels)
            loss = loss * share if share != 1 else loss
        if self.optimizer is not None:
            check_gradient(loss, self._settings["network"])
        return TorchResult(loss, right_labels(outputs, batch.labels))

    def _outputs(self, batch: TorchBatch) -> Any:
        try:
            return self.network(batch.images)
        except Exception as error:
            # Of a user's own network anything may come.
            if self._is_own or isinstance(error, (RuntimeError, ValueError, AssertionError)):
                raise self._refused(batch, error) from None
            raise

    def backward(self, result: TorchResult) -> None:
        """Autograd's pass; none where nothing is trained."""
        if self.optimizer is None:
            return
        with self._spans.backward():
            result.loss.backward()  # type: ignore[no-untyped-call]

    def loss_and_count(self, result: TorchResult) -> tuple[float, CountOfRight]:
        """The loss as a Python number; small outputs are kept for the count without their graph."""
        loss = result.loss.detach()
        if self._accelerator is not None:
            loss = self._accelerator.to_host(loss)
        return loss.item(), result.right

    def step(self) -> None:
        """The optimizer's update; gradients are freed, not set to zero."""
        if self.optimizer is None:
            return
        self.optimizer.step()
        self._freezing.put_back()
        self.optimizer.zero_grad(set_to_none=True)

    def correct(self, batch: TorchBatch) -> int | None:
        """Evaluated as in use: no dropout, no statistics of the batch, no graph."""
        self.network.eval()
        with torch.inference_mode():
            right = right_labels(self._outputs(batch), batch.labels)()
        self.network.train()
        return right

    def held_bytes(self) -> dict[str, int]:
        """Sums over its tensors; parameters with the network's buffers."""
        return {
            "parameters": _bytes(self._stored()),
            "gradients": _bytes(self._gradients()),
            "optimizer": _bytes(self._state()),
        }

    def _stored(self) -> Iterable[torch.Tensor]:
        """The network's tensors, and those that are trained in the place of parts of them."""
        every = (*self.network.state_dict().values(), *self._parameters)
        # Views of one memory are one.
        return {tensor.untyped_storage().data_ptr(): tensor for tensor in every}.values()

    def _gradients(self) -> Iterator[torch.Tensor]:
        return (p.grad for p in self._parameters if p.grad is not None)

    def _state(self) -> Iterator[torch.Tensor]:
        states = self.optimizer.state.values() if self.optimizer else ()
        kept = (value for state in states for value in state.values())
        return (value for value in kept if isinstance(value, torch.Tensor))

    def _refused(self, batch: TorchBatch, error: Exception) -> Exception:
        if is_memory_error(error):
            return error
        shape = " x ".join(map(str, batch.images.shape))
        says = (str(error).splitlines() or [type(error).__name__])[0]
        given = "inputs" if self._is_own else "images"
        what = f"{self._settings['network']} can't be trained on {given} of {shape}: {says}"
        if self._is_own:
            remedy = (
                'give it what its forward takes: data = "synthetic" with shape = "3x64x64", or '
                'data = "file.py:function"'
            )
        else:
            remedy = "give it larger ones with image = 224, or a larger batch"
        return WorkloadError(what, remedy=remedy)


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def make_optimizer(
    name: str, rate: float, parameters: Sequence[nn.Parameter]
) -> optim.Optimizer | None:
    """The optimizer; what it keeps for each parameter is made in its first step.

    None where there is nothing to train.
    """
    if not parameters:
        return None
    if name == "adam":
        return optim.Adam(parameters, lr=rate)
    if name == "adagrad":
        return optim.Adagrad(parameters, lr=rate)
    return optim.SGD(parameters, lr=rate, momentum=MOMENTUM if name == "momentum" else 0.0)
