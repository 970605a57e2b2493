"""Convolutions and linear layers of which only some filters are trained.

A tensor needs a gradient as a whole or not at all. So the trained filters are a tensor of their
own, and the layer's backward pass computes the gradient of these alone: neither time nor memory is
spent on the others'. The whole weight stays where it is and takes the trained filters back after
each step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.grad import conv2d_input, conv2d_weight

from edgebench.errors import WorkloadError

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
        if isinstance(layer, nn.Conv2d):
            _refuse_groups(layer)
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
        """What the optimizer steps: the drawn filters, and their biases."""
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
        """What the optimizer made of the filters becomes the layer's."""
        self._layer.weight[self._rows] = self.weight
        if self.bias is not None and self._layer.bias is not None:
            self._layer.bias[self._rows] = self.bias

    def _forward(self, images: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = _SomeFilters.apply(  # type: ignore[no-untyped-call]
            images, self.weight, self.bias, self._layer, self._rows
        )
        return made


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
            own = gradient[..., rows].flatten(0, -2)
            for_images = gradient @ layer.weight if down else None
            for_weight, for_bias = own.T @ images.flatten(0, -2), own.sum(0)
        else:
            own = gradient[:, rows]
            for_images = _for_images(layer, images, gradient) if down else None
            for_weight, for_bias = _for_weight(layer, images, own, rows), own.sum((0, 2, 3))
        return for_images, for_weight, for_bias if ctx.biased else None, None, None


def _for_images(layer: nn.Conv2d, images: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    made: torch.Tensor = conv2d_input(  # type: ignore[no-untyped-call]
        images.shape, layer.weight, gradient, **_options(layer)
    )
    return made


def _for_weight(
    layer: nn.Conv2d, images: torch.Tensor, gradient: torch.Tensor, rows: torch.Tensor
) -> torch.Tensor:
    options = _options(layer)
    if layer.groups > 1:
        # Depthwise: a filter sees one channel, its own.
        per_channel = layer.out_channels // layer.in_channels
        images = images[:, rows.div(per_channel, rounding_mode="floor")]
        options["groups"] = len(rows)
    shape = (len(rows), *layer.weight.shape[1:])
    made: torch.Tensor = conv2d_weight(  # type: ignore[no-untyped-call]
        images, shape, gradient, **options
    )
    return made


def _options(layer: nn.Conv2d) -> dict[str, Any]:
    return {
        "stride": layer.stride,
        "padding": layer.padding,
        "dilation": layer.dilation,
        "groups": layer.groups,
    }


def _refuse_groups(layer: nn.Conv2d) -> None:
    if layer.groups not in (1, layer.in_channels):
        raise WorkloadError(
            f"filters of a convolution in {layer.groups} groups can't be trained one by one",
            remedy='train "layers" of this network, or a network without grouped convolutions',
        )
