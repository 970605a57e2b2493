"""The ``[workload]`` table of kind ``convolution``: one convolution, or some in a row."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, model_validator

from edgebench.scenario.keys import Axis, Count, Table, one_of

if TYPE_CHECKING:
    from typing_extensions import Self

KIND = "convolution"


class ConvolutionWorkload(Table):
    """The same convolution again and again: what an image costs, by kernel and batch."""

    kind: Annotated[str, one_of("workload kind", (KIND,))] = Field(examples=['"convolution"'])
    kernel: Axis[Annotated[int, Field(ge=1, le=255)]] = Field(examples=["[1, 3, 5]"])
    stack: Axis[Annotated[int, Field(ge=1, le=64)]] = Field(default=(1,), examples=["[1, 2]"])
    batch: Axis[Annotated[int, Field(ge=1, le=65536)]] = Field(default=(1,), examples=["4"])
    backward: Axis[bool] = Field(default=(False,), examples=["[false, true]"])
    channels: Axis[Annotated[int, Field(ge=1, le=65536)]] = Field(default=(32,), examples=["32"])
    image: Annotated[int, Field(ge=1, le=8192)] = Field(default=256, examples=["256"])
    warm: Annotated[int, Field(ge=0)] = Field(default=2, examples=["2"])
    passes: Count = Field(default=10, examples=["10"])
    threads: Annotated[int, Field(ge=1, le=1024)] | None = Field(default=None, examples=["2"])

    @model_validator(mode="after")
    def _fits_the_image(self) -> Self:
        if max(self.kernel) > self.image:
            raise ValueError(
                f"a kernel of {max(self.kernel)} is larger than the image of {self.image}; "
                "make image larger or kernel smaller"
            )
        return self

    def networks(self) -> tuple[str, ...]:
        """None: it is no network."""
        return ()

    def settings(self, seed: int) -> Iterator[dict[str, Any]]:
        """Every combination of its axes, as plain data for the worker."""
        axes = itertools.product(self.kernel, self.stack, self.batch, self.backward, self.channels)
        for kernel, stack, batch, backward, channels in axes:
            yield {
                "kind": KIND,
                "kernel": kernel,
                "stack": stack,
                "batch": batch,
                "backward": backward,
                "channels": channels,
                **self.model_dump(include={"image", "warm", "passes", "threads"}),
                "seed": seed,
            }
