"""What is simulated: networks as layer tables, and how they are loaded and executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from edgebench.errors import ResultsError
from edgebench.layers.names import STREAM, WEIGHT_PRECISIONS
from edgebench.slowdown.simulator.allocator import DEFAULTS, MallocSettings, malloc_of
from edgebench.throughput import generates_text
from edgebench.workloads.engines.engine import WHOLE

#: The side of an input that a scenario gives no ``image`` for: that of nearly all networks.
_IMAGE = 224


@dataclass(frozen=True)
class LiveBytes:
    """Tensors that are alive before, at most during and after a layer, the input among them.

    ``workspace_bytes`` are what it copies beside these: weights, and what else.
    """

    before_bytes: int
    peak_bytes: int
    after_bytes: int
    workspace_bytes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Layer:
    """A row of a layer table, as far as time and memory depend on it.

    Bytes and FLOPs are of one execution at the workload's batch size. ``file_bytes`` is the
    weights file, and what the weights take in memory. ``until`` is the order of the last layer
    that needs these weights: its own, but for a container's own parameters, which are needed by
    all that is in the container. ``connected``: it holds a fully connected layer.

    ``live`` is None where the table does not tell.
    """

    order: int
    part: str
    file_bytes: int
    output_bytes: int
    flops: float
    until: int
    connected: bool
    name: str = ""
    live: LiveBytes | None = None

    @property
    def in_panels(self) -> bool:
        """Whether its weights are multiplied with many positions at once.

        Such a product takes rows of weights together, panel by panel, and not one after another.
        """
        return self.connected and self.flops > self.file_bytes


@dataclass(frozen=True)
class Workload:
    """Networks under a schedule and a loader, in the terms of a scenario.

    ``tables`` holds each network's layers, in order. ``cold``: the weights are evicted from the
    page cache before each round. ``threads`` execute a layer; None if as many as there are cores.
    ``malloc`` are the parameters of the allocator. ``walked``: rounds go on at a limit until they
    repeat, and only these count.
    """

    networks: tuple[str, ...]
    tables: tuple[tuple[Layer, ...], ...]
    schedule: str = "linear"
    loader: str = "copy"
    rounds: int = 1
    warm: int = 0
    workers: int = 2
    cold: bool = True
    input_bytes: int = 0
    threads: int | None = None
    malloc: MallocSettings = DEFAULTS
    walked: bool = False

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Tables are long, and results are looked up by their workload.
        rounds = self.rounds, self.walked
        return hash((self.networks, self.tables, self.schedule, self.loader, rounds))

    @property
    def overlaps(self) -> bool:
        """Whether loads and executions of different layers happen at the same time."""
        by_workers = self.schedule in ("partial", "admission") and self.workers > 1
        return by_workers or self.schedule in ("deepeye", "deepeye-frugal")

    @property
    def passes(self) -> int:
        """Executions of each network in a round, warm ones among them."""
        return 1 + (self.warm if self.schedule == "bulk" else 0)

    @property
    def weight_bytes(self) -> int:
        """Of all networks together."""
        return sum(self.network_bytes(place) for place in range(len(self.networks)))

    def network_bytes(self, place: int) -> int:
        """Weights of one of the networks, by its place."""
        return sum(file_bytes(self.tables[place]).values())


def file_bytes(layers: Sequence[Layer]) -> dict[str, int]:
    """Part → size of its weights file."""
    return {layer.part: layer.file_bytes for layer in layers if layer.file_bytes}


def workload_of(
    settings: Mapping[str, Any], tables: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Workload:
    """The workload of a trial's settings (as :class:`~edgebench.slowdown.curves.Curve` has them).

    ``tables`` holds each network's rows as ``networks.json`` does, made for batch size 1.

    Raises:
        KeyError: no table of one of the networks, or these are no settings of networks that are
            only run.
    """
    if settings.get("kind") == "training":
        raise KeyError("training, which is not simulated")
    accelerator = settings.get("accelerator")
    # NaN is not itself.
    if accelerator is not None and accelerator == accelerator:
        raise KeyError("computing on an accelerator, which is not simulated")
    if generates_text(settings):
        raise KeyError("text generation, which is not simulated")
    if settings["schedule"] == STREAM:
        raise KeyError("the schedule stream, which is not simulated")
    if settings.get("page_advice"):
        raise KeyError("advice about pages, which is not simulated")
    if settings.get("precision") in WEIGHT_PRECISIONS:
        raise KeyError("weights of another precision, which are not simulated")
    names = tuple(str(settings["pipeline"]).split("+"))
    batch = int(settings.get("batch") or 1)
    image = int(settings.get("image") or _IMAGE)
    threads = settings.get("threads") or settings.get("cores")
    return Workload(
        networks=names,
        tables=tuple(layers_of(tables[name], batch) for name in names),
        # A network that is loaded as a whole is all there before it is executed, as in bulk.
        schedule=str(settings["schedule"]).replace(WHOLE, "bulk"),
        loader=str(settings["loader"]),
        rounds=int(settings.get("rounds") or 1),
        warm=int(settings.get("warm") or 0),
        workers=int(settings.get("workers") or 2),
        cold=settings.get("page_cache", "cold") == "cold",
        input_bytes=batch * 3 * image * image * 4,
        threads=int(threads) if threads else None,
        malloc=malloc_of(settings),
    )


def layers_of(rows: Sequence[Mapping[str, Any]], batch: int = 1) -> tuple[Layer, ...]:
    """The rows of a layer table of batch size 1, at another batch size.

    Raises:
        KeyError: a figure is not in the table, as those of an ONNX file's nodes.
        ResultsError: a figure in them is none.
    """
    try:
        return _layers_of(rows, batch)
    except (TypeError, ValueError) as error:
        raise ResultsError(f"networks.json has a damaged layer table: {error}") from None


def _layers_of(rows: Sequence[Mapping[str, Any]], batch: int) -> tuple[Layer, ...]:
    return tuple(
        Layer(
            order=order,
            part=str(row["part"]),
            file_bytes=int(row.get("file_bytes") or 0),
            output_bytes=int(row["output_bytes"]) * batch,
            flops=float(row["flops"]) * batch,
            until=_until(order, rows),
            connected="Linear" in str(row["type"]) or "Attention" in str(row["type"]),
            name=str(row["name"]),
            live=_live(row, batch),
        )
        for order, row in enumerate(rows)
    )


def _live(row: Mapping[str, Any], batch: int) -> LiveBytes | None:
    if not row.get("live_after_bytes"):
        return None
    before, peak, after = (
        int(row[f"live_{when}_bytes"]) * batch for when in ("before", "peak", "after")
    )
    # Copies of the weights are as many at any batch size.
    copied = int(row["workspace_bytes"])
    weights = min(copied, int(row.get("file_bytes") or 0))
    return LiveBytes(before, peak, after, (weights, (copied - weights) * batch))


def _until(order: int, rows: Sequence[Mapping[str, Any]]) -> int:
    row = rows[order]
    if not str(row["type"]).endswith("(own)"):
        return order
    inside = f"{row['part']}." if row["part"] else ""
    return max(
        (n for n, other in enumerate(rows) if n > order and str(other["part"]).startswith(inside)),
        default=order,
    )
