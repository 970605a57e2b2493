"""The networks that are trained, and the part of each that is; what is frozen gets no gradient.

A tensor needs a gradient as a whole or not at all. So trained filters are a tensor of their own,
and the layer's backward pass computes the gradient of these alone: neither time nor memory is spent
on the others'. The whole weight stays where it is and takes the trained filters back after each
step.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.grad import conv2d_input, conv2d_weight
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from edgebench.errors import WorkloadError
from edgebench.layers.known_networks import LeNet, MobileNetV1, import_torchvision
from edgebench.layers.tensor_files import read_checkpoint
from edgebench.workloads.training.loop import Problem, Settings
from edgebench.workloads.training.names import (
    BASIC_CNN,
    FILTERS,
    LAST,
    LAYERS,
    MLP,
    NOTHING,
    OWN,
    SCRATCH,
    TRAINED,
    WHOLE,
    TrainedPart,
    parse_part,
)

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
}
#: LeNet's two poolings leave nothing of less.
_LEAST_LENET = 12
#: What these return beside their scores, they return only when they are told to.
_WITH_AUX = ("googlenet", "inception_v3")


def build_network(settings: Settings, problem: Problem) -> nn.Module:
    """Build the network with as many classes as the problem has; torch's generator draws it.

    Raises:
        WorkloadError: there is none for images of that shape.
    """
    name = settings["network"]
    if name == MLP:
        width, activation = settings["width"], ACTIVATIONS[settings["activation"]]
        sizes = [math.prod(problem.shape), *[width] * settings["depth"]]
        layers: list[nn.Module] = [nn.Flatten()]
        for inward, outward in pairwise(sizes):
            layers += [nn.Linear(inward, outward), activation()]
        return nn.Sequential(*layers, nn.Linear(sizes[-1], problem.classes))
    if name == BASIC_CNN:
        return _basic_cnn(problem)
    if name == "lenet":
        return _lenet(problem)
    if problem.shape[0] not in (1, 3):
        raise WorkloadError(
            f"{name} reads images of 3 colours, or grey ones, not of {problem.shape[0]} channels",
            remedy="take another data set or shape; mlp, lenet and basic_cnn read any",
        )
    if name == "mobilenet_v1":
        return MobileNetV1(problem.classes)
    if name not in TRAINED:
        raise WorkloadError(f"{name} is not a network that edgebench knows by name")
    options = {"aux_logits": False, "init_weights": True} if name in _WITH_AUX else {}
    model: nn.Module = import_torchvision().get_model(
        name, weights=None, num_classes=problem.classes, **options
    )
    return model


def channels_read(name: str, problem: Problem) -> int:
    """Return how many channels the network reads: some read a grey image as three colours."""
    return problem.shape[0] if name in (*OWN, "lenet") else 3


def _basic_cnn(problem: Problem) -> nn.Sequential:
    channels, rows, columns = problem.shape
    if min(rows, columns) < 4:
        raise _too_small(BASIC_CNN, 4, problem)
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * (rows // 4) * (columns // 4), 128),
        nn.ReLU(),
        nn.Linear(128, problem.classes),
    )


def _lenet(problem: Problem) -> LeNet:
    """LeNet-5; for other images than 1 x 28 x 28 its ends are made to fit them."""
    channels, rows, columns = problem.shape
    if min(rows, columns) < _LEAST_LENET:
        raise _too_small("lenet", _LEAST_LENET, problem)
    network = LeNet(problem.classes)
    if channels != 1:
        network.features[0] = nn.Conv2d(channels, 6, 5, padding=2)
    if (rows, columns) != (28, 28):
        left = [(side // 2 - 4) // 2 for side in (rows, columns)]
        network.classifier[0] = nn.Linear(16 * left[0] * left[1], 120)
    return network


def _too_small(name: str, least: int, problem: Problem) -> WorkloadError:
    _, rows, columns = problem.shape
    return WorkloadError(
        f"{name} needs images of {least} x {least} pixels or more; these have {rows} x {columns}",
        remedy="widen them: image = 28",
    )


def checkpoint_blocks(network: nn.Module) -> None:
    """Checkpoint the network's outermost blocks, in place.

    A chain of leaves is cut into √n segments, of which the last is kept as it is. Layers that
    write over their input no longer do: a block's input must stay as it was.
    """
    for module in network.modules():
        if hasattr(module, "inplace"):
            setattr(module, "inplace", False)  # noqa: B010 - mypy knows no such attribute
    _checkpoint(network)


def _checkpoint(network: nn.Module) -> None:
    if isinstance(network, nn.Sequential) and all(map(_leaf, network)):
        segments = round(math.sqrt(len(network)))
        if segments > 1:
            # A chain of its own: the network's would call itself.
            layers = nn.Sequential(*network)
            again = functools.partial(checkpoint_sequential, layers, segments, use_reentrant=False)
            network.forward = again  # type: ignore[method-assign]
        return
    for child in network.children():
        if isinstance(child, nn.Sequential):
            _checkpoint(child)
        elif not _leaf(child):
            child.forward = functools.partial(checkpoint, child.forward, use_reentrant=False)


def _leaf(module: nn.Module) -> bool:
    return next(module.children(), None) is None


Layer = nn.Conv2d | nn.Linear


class FilterSubset:
    """Some filters of one layer, drawn again as often as wanted.

    Args:
        layer: it computes as before, but only drawn filters get a gradient.
        share: how many of its filters, above 0 and up to 1; at least one.

    Raises:
        WorkloadError: the layer's filters can't be told apart: grouped, but not depthwise.
    """

    def __init__(self, layer: Layer, share: float) -> None:
        if isinstance(layer, nn.Conv2d) and layer.groups not in (1, layer.in_channels):
            raise WorkloadError(
                f"filters of a convolution in {layer.groups} groups can't be trained one by one",
                remedy='train "layers" of this network, or a network without grouped convolutions',
            )
        self._layer = layer
        self._count = len(layer.weight)
        chosen = max(1, round(share * self._count))
        self._rows = torch.arange(chosen)
        layer.weight.requires_grad_(False)
        self.weight = nn.Parameter(layer.weight[self._rows].clone())
        self.bias: nn.Parameter | None = None
        if layer.bias is not None:
            layer.bias.requires_grad_(False)
            self.bias = nn.Parameter(layer.bias[self._rows].clone())
        layer.forward = self._forward  # type: ignore[method-assign, assignment]

    def parameters(self) -> list[nn.Parameter]:
        """Return what the optimizer steps: the drawn filters, and their biases."""
        return [self.weight] if self.bias is None else [self.weight, self.bias]

    @torch.no_grad()
    def draw(self, random: torch.Generator) -> None:
        """Choose other filters."""
        order = torch.randperm(self._count, generator=random)
        self._rows = order[: len(self._rows)].sort().values
        self.weight.copy_(self._layer.weight[self._rows])
        if self.bias is not None and self._layer.bias is not None:
            self.bias.copy_(self._layer.bias[self._rows])

    @torch.no_grad()
    def put_back(self) -> None:
        """Copy what the optimizer made of the filters into the layer."""
        self._layer.weight[self._rows] = self.weight
        if self.bias is not None and self._layer.bias is not None:
            self._layer.bias[self._rows] = self.bias

    def _forward(self, images: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = _SomeFilters.apply(  # type: ignore[no-untyped-call]
            images, self.weight, self.bias, self._layer, self._rows
        )
        return outputs


class _SomeFilters(torch.autograd.Function):
    """The whole layer forward; backward the input's gradient and the drawn filters' alone."""

    @staticmethod
    def forward(
        ctx: Any,
        images: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        layer: Layer,
        rows: torch.Tensor,
    ) -> torch.Tensor:
        ctx.save_for_backward(images, rows)
        ctx.layer, ctx.biased = layer, bias is not None
        if isinstance(layer, nn.Linear):
            return functional.linear(images, layer.weight, layer.bias)
        return functional.conv2d(images, layer.weight, layer.bias, **_options(layer))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        (gradient,), (images, rows) = gradients, ctx.saved_tensors
        layer: Layer = ctx.layer
        down = ctx.needs_input_grad[0]
        if isinstance(layer, nn.Linear):
            drawn = gradient[..., rows].flatten(0, -2)
            for_bias = drawn.sum(0) if ctx.biased else None
            for_images = gradient @ layer.weight if down else None
            return for_images, drawn.T @ images.flatten(0, -2), for_bias, None, None
        drawn, options = gradient[:, rows], _options(layer)
        for_bias = drawn.sum((0, 2, 3)) if ctx.biased else None
        for_images = None
        if down:
            for_images = conv2d_input(  # type: ignore[no-untyped-call]
                images.shape, layer.weight, gradient, **options
            )
        if layer.groups > 1:
            # Depthwise: a filter sees one channel, its own.
            per_channel = layer.out_channels // layer.in_channels
            images = images[:, rows.div(per_channel, rounding_mode="floor")]
            options["groups"] = len(rows)
        shape = (len(rows), *layer.weight.shape[1:])
        for_weight = conv2d_weight(images, shape, drawn, **options)  # type: ignore[no-untyped-call]
        return for_images, for_weight, for_bias, None, None


def _options(layer: nn.Conv2d) -> dict[str, Any]:
    return {
        "stride": layer.stride,
        "padding": layer.padding,
        "dilation": layer.dilation,
        "groups": layer.groups,
    }


class PartialTraining:
    """Freezes all of a network but a part, and draws that part again where it is random.

    Call :meth:`draw` before each step's forward pass, :meth:`put_back` after the optimizer's step.
    Biases go with their filters; normalisation has no filters and is trained whole beside them.

    Args:
        network: frozen in place.
        part: what is trained.
        seed: of what is drawn.

    Raises:
        WorkloadError: the network has no such part.
    """

    def __init__(self, network: nn.Module, part: TrainedPart, seed: int) -> None:
        self._part = part
        self._random = torch.Generator().manual_seed(seed)
        self._layers = [m for m in network.modules() if any(True for _ in m.parameters(False))]
        self._filters: list[FilterSubset] = []
        if not self._layers:
            raise WorkloadError("a network without parameters has nothing to train")
        if part.kind == FILTERS:
            filtered = [m for m in self._layers if isinstance(m, (nn.Conv2d, nn.Linear))]
            self._filters = [FilterSubset(layer, part.share) for layer in filtered]
        elif part.kind != WHOLE:
            self._train({LAST: self._layers[-1:], NOTHING: []}.get(part.kind, self._layers))
        #: What an optimizer may ever step. Without a gradient it leaves a parameter as it is.
        self.parameters = [p for p in network.parameters() if p.requires_grad]
        self.parameters += [p for some in self._filters for p in some.parameters()]

    def draw(self) -> None:
        """Choose what this step trains; does nothing where chance has no part in it."""
        if self._part.kind == LAYERS:
            count = max(1, round(self._part.share * len(self._layers)))
            order = torch.randperm(len(self._layers), generator=self._random)
            self._train(self._layers[number] for number in order[:count].tolist())
        for some in self._filters:
            some.draw(self._random)

    def put_back(self) -> None:
        """Give each layer the filters that the optimizer has stepped."""
        for some in self._filters:
            some.put_back()

    def _train(self, layers: Iterable[nn.Module]) -> None:
        chosen = {id(parameter) for layer in layers for parameter in layer.parameters(False)}
        for layer in self._layers:
            for parameter in layer.parameters(False):
                parameter.requires_grad_(id(parameter) in chosen)
                # The step before may have left one, which would be stepped again and kept.
                parameter.grad = None


def partial_training(network: nn.Module, settings: Mapping[str, Any]) -> PartialTraining:
    """Freeze what the settings ask for by ``trained``, drawn from their ``seed``.

    Raises:
        WorkloadError: the network has no such part; or the optimizer keeps a memory of each
            parameter, which would mix filters that are drawn anew at each step.
    """
    part = parse_part(settings["trained"])
    if part.kind == FILTERS and part.share < 1 and settings["optimizer"] != "sgd":
        raise WorkloadError(
            f"the optimizer {settings['optimizer']!r} remembers each filter's past, "
            "and other filters are drawn at each step",
            remedy='optimizer = "sgd", or trained = "layers 40%"',
        )
    return PartialTraining(network, part, settings["seed"])


def start_from(network: nn.Module, settings: Mapping[str, Any]) -> None:
    """Give the network a checkpoint's tensors where ``start`` names one; else leave it as made.

    A checkpoint of another number of classes keeps its last layer to itself.

    Raises:
        WorkloadError: it can't be read, or is of another network.
    """
    if settings["start"] == SCRATCH:
        return
    file = Path(settings["start"])
    tensors = read_checkpoint(file)
    state = network.state_dict()
    fitting = {k: v for k, v in tensors.items() if k in state and v.shape == state[k].shape}
    *_, last = (n for n, m in network.named_modules() if any(True for _ in m.parameters(False)))
    prefix = f"{last}." if last else ""
    lacking = [name for name in state if name not in fitting and not name.startswith(prefix)]
    if lacking:
        raise WorkloadError(
            f"the checkpoint lacks {lacking[0]} ({len(lacking)} of {len(state)} tensors don't fit)",
            where=str(file),
            remedy='name a checkpoint of this network, or start = "scratch"',
        )
    network.load_state_dict(fitting, strict=False)
