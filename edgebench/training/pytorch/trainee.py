"""A PyTorch network under training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional

from edgebench.errors import WorkloadError
from edgebench.training.backend import Images, Labels, Problem, Settings
from edgebench.training.pytorch.freezing import freezing_of
from edgebench.training.pytorch.layer_spans import LayerSpans
from edgebench.training.pytorch.networks import channels_read
from edgebench.training.pytorch.optimizers import make_optimizer
from edgebench.workloads.recorder import Recorder


class Batch(NamedTuple):
    """Images as the network's numbers, and their labels."""

    images: torch.Tensor
    labels: torch.Tensor


class Result(NamedTuple):
    """What a forward pass came to."""

    loss: torch.Tensor
    right: int


class TorchTrainee:
    """As :class:`edgebench.training.backend.Trainee` says.

    ``network`` and ``optimizer`` are torch's own; the latter is None where nothing is trained.
    """

    def __init__(
        self, network: nn.Module, settings: Settings, problem: Problem, recorder: Recorder
    ) -> None:
        self.network = network
        self._settings = settings
        self._problem = problem
        self._recorder = recorder
        self._channels = channels_read(settings["network"], problem)
        self._number_type = next(network.parameters()).dtype
        self._freezing = freezing_of(network, settings)
        self._parameters = self._freezing.parameters
        self.optimizer = make_optimizer(
            settings["optimizer"], settings["learning_rate"], self._parameters
        )
        self._spans = LayerSpans(network, settings["network"], recorder)
        if settings["per_layer"]:
            self._spans.watch()
        self._own = {address(tensor) for tensor in self._stored()}
        recorder.holds("parameters", *self._own)

    def batch(self, images: Images, labels: Labels) -> Batch:
        """Bytes as numbers of 0 … 1."""
        # In place: a batch never stands in memory twice as numbers.
        numbers = torch.from_numpy(images).to(self._number_type).div_(self._problem.brightest)
        # A grey image is all three colours at once, in the memory of one.
        numbers = numbers.expand(-1, self._channels, -1, -1)
        made = Batch(numbers, torch.from_numpy(labels))
        self._tell("input", (numbers, made.labels))
        return made

    def begin(self, step: int) -> None:
        """Layers' spans are of this step from now on; what it trains is drawn."""
        self._spans.step = step
        self._freezing.draw()

    def forward(self, batch: Batch, share: float) -> Result:
        """Cross-entropy, in float32 whatever the network computes in.

        Raises:
            WorkloadError: the network can't take such images.
        """
        try:
            with self._spans.forward(), self._told_what_is_saved():
                scores = self.network(batch.images)
                loss = functional.cross_entropy(scores.float(), batch.labels)
                loss = loss * share if share != 1 else loss
        except (RuntimeError, ValueError, AssertionError) as error:
            raise self._refused(batch, error) from None
        right = int((scores.detach().argmax(1) == batch.labels).sum())
        return Result(loss, right)

    def backward(self, result: Result) -> None:
        """Autograd's pass; none where nothing is trained."""
        if self.optimizer is None:
            return
        with self._spans.backward():
            result.loss.backward()  # type: ignore[no-untyped-call]
        self._tell("gradients", self._gradients())

    def told(self, result: Result) -> tuple[float, int]:
        """The loss as a Python number, and how many labels were right."""
        return result.loss.item(), result.right

    def step(self) -> None:
        """The optimizer's update; gradients are let go of, not set to zero."""
        if self.optimizer is None:
            return
        self.optimizer.step()
        self._freezing.put_back()
        self._tell("optimizer", self._state())
        self.optimizer.zero_grad(set_to_none=True)

    def right(self, batch: Batch) -> int:
        """Evaluated as in use: no dropout, no statistics of the batch, no graph."""
        self.network.eval()
        with torch.inference_mode():
            right = int((self.network(batch.images).argmax(1) == batch.labels).sum())
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
        return {address(tensor): tensor for tensor in every}.values()

    def _gradients(self) -> Iterator[torch.Tensor]:
        return (p.grad for p in self._parameters if p.grad is not None)

    def _state(self) -> Iterator[torch.Tensor]:
        states = self.optimizer.state.values() if self.optimizer else ()
        kept = (value for state in states for value in state.values())
        return (value for value in kept if isinstance(value, torch.Tensor))

    def _tell(self, category: str, tensors: Iterable[torch.Tensor]) -> None:
        """Where a strategy asks: what these tensors are."""
        if self._recorder.told_holders:
            self._recorder.holds(category, *(address(tensor) for tensor in tensors))

    def _told_what_is_saved(self) -> AbstractContextManager[object]:
        """Where a strategy asks: each tensor that autograd saves for going backward."""
        if not self._recorder.told_holders:
            return nullcontext()
        return torch.autograd.graph.saved_tensors_hooks(self._saved, lambda tensor: tensor)

    def _saved(self, tensor: torch.Tensor) -> torch.Tensor:
        if (place := address(tensor)) not in self._own:
            self._recorder.holds("activations", place)
        return tensor

    def _refused(self, batch: Batch, error: Exception) -> Exception:
        if "allocate memory" in str(error):
            return error
        shape = " x ".join(map(str, batch.images.shape))
        says = str(error).splitlines()[0]
        return WorkloadError(
            f"{self._settings['network']} can't be trained on images of {shape}: {says}",
            remedy="give it larger ones with image = 224, or a larger batch",
        )


def address(tensor: torch.Tensor) -> int:
    """Where the tensor's memory begins; views of one memory have one address."""
    return tensor.untyped_storage().data_ptr()


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
