"""PyTorch as a backend of training, and a network under training in it.

It is imported in the import phase, and torch with it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn, optim
from torch.nn import functional

from edgebench.errors import WorkloadError
from edgebench.layers.accelerator import is_memory_error
from edgebench.layers.references import OwnFunction
from edgebench.layers.sources import NetworkSource, network_source
from edgebench.workloads.engines.torch import import_torch, start_accelerator
from edgebench.workloads.recorder import Recorder
from edgebench.workloads.training.loop import (
    BuildNetwork,
    CountOfRight,
    Images,
    Labels,
    Problem,
    Settings,
    counted_later,
)
from edgebench.workloads.training.names import (
    LOSS_HOW,
    MOMENTUM,
    NETWORK,
    NOTHING,
    OWN,
    own_loss,
    own_reference,
)
from edgebench.workloads.training.pytorch_networks import (
    build_network,
    channels_read,
    checkpoint_blocks,
    partial_training,
    start_from,
)

#: From outputs and targets to the batch's mean loss.
Loss = Callable[[Any, torch.Tensor], torch.Tensor]


def cross_entropy(outputs: Any, targets: torch.Tensor) -> torch.Tensor:
    """Compute the cross-entropy of class scores, in float32 whatever the network computes in.

    Raises:
        WorkloadError: the outputs are no scores of these classes.
    """
    try:
        loss: torch.Tensor = functional.cross_entropy(outputs.float(), targets)
    except (AttributeError, IndexError, RuntimeError, ValueError) as error:
        if is_memory_error(error):
            raise
        what = f"the network returned {_words(outputs)}"
        raise WorkloadError(
            f"{what}; cross-entropy needs scores: examples x classes",
            where=str(error),
            remedy="return as many scores as there are classes, or name a loss of your own: "
            'loss = "file.py:function"',
        ) from error
    return loss


def _words(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"a {type(value).__name__}"
    shape = " x ".join(map(str, value.shape)) or "one number"
    return f"{str(value.dtype).removeprefix('torch.')} of {shape}"


def own_loss_function(own: OwnFunction) -> Loss:
    """Wrap the user's loss, and check what it returns. A class is made first, with its arguments.

    Raises:
        WorkloadError: it can't be had; when called: it fails, or returns no mean loss.
    """
    function = own.function()
    arguments = dict(own.reference.arguments)
    instance = own.call() if inspect.isclass(function) else None

    def loss(outputs: Any, targets: torch.Tensor) -> torch.Tensor:
        try:
            value = (
                instance(outputs, targets) if instance else function(outputs, targets, **arguments)
            )
        except Exception as error:
            if is_memory_error(error):
                raise
            words = (str(error).strip().splitlines() or ["no message"])[0]
            what = f"{type(error).__name__} in your own loss: {words}"
            raise WorkloadError(what, where=own.name, remedy=LOSS_HOW) from error
        is_tensor = isinstance(value, torch.Tensor)
        if not (is_tensor and value.numel() == 1 and value.is_floating_point()):
            what = f"{own.name} returned {_words(value)}"
            raise WorkloadError(
                f"{what}, and a loss is a tensor of one floating-point number", remedy=LOSS_HOW
            )
        mean: torch.Tensor = value.reshape(())
        return mean

    return loss


def right_labels(outputs: Any, targets: torch.Tensor) -> CountOfRight:
    """Count how many labels the highest scores name; None: they are no scores of labels."""
    if not isinstance(outputs, torch.Tensor) or outputs.ndim != 2:
        return lambda: None
    if targets.ndim != 1 or targets.is_floating_point():
        return lambda: None
    scores = outputs.detach()
    return counted_later(lambda: int((scores.argmax(1) == targets).sum()), scores.nbytes)


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
        """Add a hook to each leaf module."""
        for name, module in self._network.named_modules():
            if next(module.children(), None) is None:
                module.register_forward_pre_hook(partial(self._before, name))
                module.register_forward_hook(partial(self._after, name))

    @contextmanager
    def forward(self) -> Iterator[None]:
        """Mark the layers called inside as going forward; their numbers begin at 0."""
        self._calls, self._phase = 0, _FORWARD
        try:
            yield
        finally:
            self._phase = None

    @contextmanager
    def backward(self) -> Iterator[None]:
        """Mark the layers whose gradients come inside as going backward."""
        # What checkpointing computes again meanwhile is part of going backward.
        self._phase = _BACKWARD
        yield
        self._open.close()
        self._phase = None

    def _before(self, name: str, module: nn.Module, inputs: Any) -> None:
        if self._phase == _FORWARD:
            self._open.enter_context(self._span(_FORWARD, self._calls, name))

    def _after(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        if self._phase != _FORWARD:
            return
        self._open.close()
        number, self._calls = self._calls, self._calls + 1

        def begin_backward(gradients: Any) -> None:
            if self._phase == _BACKWARD:
                self._open.close()
                self._open.enter_context(self._span(_BACKWARD, number, name))

        tensor = output[0] if isinstance(output, tuple) else output
        if isinstance(tensor, torch.Tensor) and tensor.grad_fn is not None:
            tensor.grad_fn.register_prehook(begin_backward)

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
    """As :class:`edgebench.workloads.training.loop.TrainedNetwork` says.

    ``network`` and ``optimizer`` are torch's own; the latter is None where nothing is trained.
    """

    def __init__(
        self, network: nn.Module, settings: Settings, problem: Problem, recorder: Recorder
    ) -> None:
        self.network = network
        self._settings = settings
        self._problem = problem
        self._accelerator = recorder.accelerator
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
        """Convert bytes to 0 … 1; other numbers stay, in the network's precision."""
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
        return self._accelerator.to_accelerator(tensor) if self._accelerator else tensor

    def begin(self, step: int) -> None:
        """Begin a step: layers' spans are of it from now on, and what it trains is drawn."""
        self._spans.step = step
        self._freezing.draw()

    def forward(self, batch: TorchBatch, share: float) -> TorchResult:
        """Compute the network's outputs, and their loss.

        Raises:
            WorkloadError: the network can't take such images, or there is no loss of its outputs.
        """
        with self._spans.forward():
            outputs = self._outputs(batch)
            loss = self._loss(outputs, batch.labels)
            loss = loss * share if share != 1 else loss
        if self.optimizer is not None and not loss.requires_grad:
            raise WorkloadError(
                "the loss has no gradient: nothing in it depends on a trained parameter",
                where=self._settings["network"],
                remedy="compute it from the outputs with torch alone: no detach(), item() or NumPy",
            )
        return TorchResult(loss, right_labels(outputs, batch.labels))

    def _outputs(self, batch: TorchBatch) -> Any:
        try:
            return self.network(batch.images)
        except Exception as error:
            # Of a user's own network anything may come.
            expected = self._is_own or isinstance(error, (RuntimeError, ValueError, AssertionError))
            if not expected or is_memory_error(error):
                raise
            shape = " x ".join(map(str, batch.images.shape))
            says = (str(error).splitlines() or [type(error).__name__])[0]
            given, remedy = "images", "give it larger ones with image = 224, or a larger batch"
            if self._is_own:
                given = "inputs"
                remedy = (
                    'give it what its forward takes: data = "synthetic" with shape = "3x64x64", or '
                    'data = "file.py:function"'
                )
            what = f"{self._settings['network']} can't be trained on {given} of {shape}: {says}"
            raise WorkloadError(what, remedy=remedy) from None

    def backward(self, result: TorchResult) -> None:
        """Run autograd's pass; none where nothing is trained."""
        if self.optimizer is None:
            return
        with self._spans.backward():
            result.loss.backward()  # type: ignore[no-untyped-call]

    def loss_and_count(self, result: TorchResult) -> tuple[float, CountOfRight]:
        """Return the loss as a number; small outputs are kept for the count without their graph."""
        loss = result.loss.detach()
        if self._accelerator is not None:
            loss = self._accelerator.to_host(loss)
        return loss.item(), result.right

    def step(self) -> None:
        """Update by the optimizer; gradients are freed, not set to zero."""
        if self.optimizer is None:
            return
        self.optimizer.step()
        self._freezing.put_back()
        self.optimizer.zero_grad(set_to_none=True)

    def correct(self, batch: TorchBatch) -> int | None:
        """Evaluate as in use: no dropout, no statistics of the batch, no graph."""
        self.network.eval()
        with torch.inference_mode():
            right = right_labels(self._outputs(batch), batch.labels)()
        self.network.train()
        return right

    def held_bytes(self) -> dict[str, int]:
        """Add up its tensors; parameters with the network's buffers."""
        # With what is trained in the place of parts of them; views of one memory count once.
        every = (*self.network.state_dict().values(), *self._parameters)
        stored = {tensor.untyped_storage().data_ptr(): tensor for tensor in every}
        states = self.optimizer.state.values() if self.optimizer else ()
        kept = (value for state in states for value in state.values())
        return {
            "parameters": _bytes(stored.values()),
            "gradients": _bytes(p.grad for p in self._parameters if p.grad is not None),
            "optimizer": _bytes(value for value in kept if isinstance(value, torch.Tensor)),
        }


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def make_optimizer(
    name: str, rate: float, parameters: Sequence[nn.Parameter]
) -> optim.Optimizer | None:
    """Make the optimizer; what it keeps for each parameter is made in its first step.

    None where there is nothing to train.
    """
    if not parameters:
        return None
    if name == "adam":
        return optim.Adam(parameters, lr=rate)
    if name == "adagrad":
        return optim.Adagrad(parameters, lr=rate)
    return optim.SGD(parameters, lr=rate, momentum=MOMENTUM if name == "momentum" else 0.0)


def _own_network(settings: Settings) -> NetworkSource | None:
    reference = own_reference(settings, NETWORK)
    return network_source(reference) if reference else None


def import_runtime(settings: Settings, recorder: Recorder) -> BuildNetwork:
    """Import torchvision where the network is built from it, and the user's own code."""
    network = settings["network"]
    source = _own_network(settings)
    known: tuple[str, ...] = () if source or network in OWN else (network,)
    import_torch(recorder, known, settings["threads"], settings.get("interop_threads"))
    if source:
        source.import_code()
    if loss := own_loss(settings):
        loss.import_code()
    start_accelerator(settings, recorder)
    # What torch imports by itself when its first optimizer is made.
    make_optimizer(settings["optimizer"], 1.0, [nn.Parameter(torch.zeros(1))])
    return build


def build(settings: Settings, problem: Problem, recorder: Recorder) -> TorchNetwork:
    """Build the network with its optimizer, equal for equal seeds.

    Raises:
        WorkloadError: the network can't be had for such images, or has no such part to train.
    """
    torch.manual_seed(settings["seed"])
    source = _own_network(settings)
    network = source.construct(weights=True) if source else build_network(settings, problem)
    network.train(settings["trained"] != NOTHING)
    start_from(network, settings)
    if settings["precision"] == "bfloat16":
        network.to(torch.bfloat16)
    if settings["checkpointing"]:
        checkpoint_blocks(network)
    if recorder.accelerator is not None:
        recorder.accelerator.move_network(network)
    return TorchNetwork(network, settings, problem, recorder)
