"""What bytes and seconds of a workload follow from: its layer table, schedule and loader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from edgebench.errors import ResultsError
from edgebench.layers.names import GENERATE, WEIGHT_PRECISIONS
from edgebench.throughput import generates_text
from edgebench.workloads.engines.engine import TORCH, WHOLE

#: Schedules in which nothing overlaps. The first hold all weights at once, ``linear`` a layer's.
_AT_ONCE = ("bulk", WHOLE)
_IN_ORDER = (*_AT_ONCE, "linear")
Tables = Mapping[str, Sequence[Mapping[str, Any]]]


class CannotPredictError(Exception):
    """No formula tells this; the message names what is lacking."""


@dataclass(frozen=True)
class Layer:
    """A row of a layer table at the workload's batch size.

    ``working_bytes`` are the most that is alive beside weights while it is executed.
    """

    name: str
    weight_bytes: int
    output_bytes: int
    working_bytes: int
    flops: float


@dataclass(frozen=True)
class Workload:
    """A network whose layers are loaded and executed one after another.

    Args:
        network: its name.
        layers: in their order.
        schedule: ``bulk`` (or ``whole``) holds all weights at once, ``linear`` those of a layer.
        loader: ``copy`` or ``mmap``.
        passes: executions in a round, warm ones among them.
    """

    network: str
    layers: tuple[Layer, ...]
    schedule: str
    loader: str
    passes: int

    @cached_property
    def weight_bytes(self) -> int:
        """All weights."""
        return sum(layer.weight_bytes for layer in self.layers)

    @property
    def mapped(self) -> bool:
        """Whether weights are clean pages of their file, which need no swap."""
        return self.loader == "mmap"

    @property
    def at_once(self) -> bool:
        """Whether all weights are held at once."""
        return self.schedule in _AT_ONCE

    @cached_property
    def held_bytes(self) -> int:
        """Weights that are held at once."""
        largest = max((layer.weight_bytes for layer in self.layers), default=0)
        return self.weight_bytes if self.at_once else largest

    @cached_property
    def table_bytes(self) -> float:
        """The most that weights, tensors and copies take together, by the layer table."""
        if self.at_once:
            return self.weight_bytes + max((one.working_bytes for one in self.layers), default=0)
        return max((one.weight_bytes + one.working_bytes for one in self.layers), default=0)

    @cached_property
    def amounts(self) -> tuple[float, float, float, float]:
        """What a round's time is made of: bytes loaded, layers called, FLOPs, bytes touched."""
        touched = sum(one.weight_bytes + one.output_bytes for one in self.layers)
        flops, passes = sum(one.flops for one in self.layers), float(self.passes)
        calls = passes * len(self.layers)
        return float(self.weight_bytes), calls, passes * flops, passes * touched


def table_key(network: str, image: object = None) -> str:
    """Return the key of a network's layer table: inputs of another size have another table."""
    # NaN is not itself.
    return network if image is None or image != image else f"{network} at {image:.0f} pixels"


def workload_of(settings: Mapping[str, Any], tables: Tables) -> Workload:
    """Return the workload of a curve's settings.

    Raises:
        CannotPredictError: the formulas don't hold for it, or there is no layer table.
    """
    accelerator, schedule = settings.get("accelerator"), settings.get("schedule")
    own_trials_alone = {
        "a training": settings.get("kind") != "inference",
        f"the engine {settings.get('engine')}": settings.get("engine", TORCH) != TORCH,
        # NaN is not itself.
        "computing on an accelerator": accelerator is not None and accelerator == accelerator,
        "text generation": generates_text(settings),
        "advice about pages": bool(settings.get("page_advice")),
        "weights of another precision": settings.get("precision") in WEIGHT_PRECISIONS,
        "several networks": "+" in str(settings.get("pipeline")),
        f"the schedule {schedule}": schedule not in _IN_ORDER,
    }
    for words, holds in own_trials_alone.items():
        if holds:
            raise CannotPredictError(f"{words} is answered from its own trials alone")
    network = str(settings.get("pipeline") or settings.get("network"))
    key = table_key(network, settings.get("image"))
    if key not in tables:
        raise CannotPredictError(f"no layer table of {key}")
    schedule, warm = str(settings["schedule"]), int(settings.get("warm") or 0)
    return Workload(
        network=network,
        layers=layers_of(tables[key], int(settings.get("batch") or 1)),
        schedule=schedule,
        loader=str(settings["loader"]),
        passes=1 + (warm if schedule in _AT_ONCE else 0),
    )


def layers_of(rows: Sequence[Mapping[str, Any]], batch: int = 1) -> tuple[Layer, ...]:
    """Return the rows of a layer table, which is of batch size 1, at a batch size.

    Raises:
        CannotPredictError: the table has no sizes, as that of an ONNX file's nodes.
        ResultsError: a figure in it is none.
    """
    seen: set[str] = set()
    found = []
    try:
        for row in rows:
            part = str(row["part"])
            weights = int(row.get("file_bytes") or 0) if part not in seen else 0
            seen.add(part)
            output = int(row["output_bytes"]) * batch
            working = 2 * output
            if row.get("live_after_bytes"):
                # Tensors that are alive meanwhile, and copies: of weights as many at any batch.
                copied = int(row["workspace_bytes"])
                of_weights = min(copied, int(row.get("file_bytes") or 0))
                alive = int(row["live_peak_bytes"]) * batch
                working = alive + of_weights + (copied - of_weights) * batch or working
            found.append(
                Layer(
                    name=str(row["name"]),
                    weight_bytes=weights,
                    output_bytes=output,
                    working_bytes=working,
                    flops=float(row["flops"]) * batch,
                )
            )
    except KeyError as error:
        raise CannotPredictError(f"its layer table has no {error.args[0]}") from None
    except (TypeError, ValueError) as error:
        raise ResultsError(f"networks.json has a damaged layer table: {error}") from None
    return tuple(found)


def least_read_bytes(settings: Mapping[str, Any], tables: Tables, limit_bytes: float) -> float:
    """Return the bytes of weights that no eviction can spare a round to read again.

    Of weights that are used one after another, a pass finds at most a limit's worth in memory
    (Belady, "A study of replacement algorithms", IBM Systems Journal 5(2), 1966).
    """
    at_once = settings.get("schedule") in (*_AT_ONCE, GENERATE)
    if settings.get("kind") != "inference" or not at_once:
        return 0.0
    networks = str(settings.get("pipeline") or settings.get("network")).split("+")
    sizes = {
        (name, row["part"]): int(row.get("file_bytes") or 0)
        for name in networks
        for row in tables.get(table_key(name, settings.get("image")), ())
    }
    passes = int(settings.get("new_tokens") or 1 + int(settings.get("warm") or 0))
    again = passes - (settings.get("loader") == "mmap")
    return float(again * max(0.0, sum(sizes.values()) - limit_bytes))


#: Measured edges lie within the first of what unlimited trials needed, and within the second of
#: what follows from layer tables (validation-edge, validation).
MEASURED_MARGIN, TABLE_MARGIN = 0.03, 0.08


@dataclass(frozen=True)
class Room:
    """What a workload needs beside clean file pages, and the swap that it has.

    Memory that can't be dropped needs a place below the limit or in swap: ``limit + swap >= needs``
    decides, but for a margin on both sides in which it is not known.

    Args:
        need_bytes: memory that can't be dropped.
        swap_bytes: what swap can take of it.
        margin: how far off the need may be, as a share.
    """

    need_bytes: float
    swap_bytes: float
    margin: float

    def finishes(self, limit_bytes: float) -> bool | None:
        """Return whether a trial finishes at a limit; None: too near to tell."""
        room = limit_bytes + self.swap_bytes
        if room >= self.need_bytes * (1 + self.margin):
            return True
        return None if room >= self.need_bytes * (1 - self.margin) else False

    @property
    def least_bytes(self) -> float:
        """The limit at which the need just fits; 0 where swap takes all of it."""
        return max(0.0, self.need_bytes - self.swap_bytes)


def mapped_bytes(tables: Tables, pipeline: str, settings: Mapping[str, Any]) -> float:
    """Return the mapped weights that are held at once: the kernel can drop them without swap."""
    held = max if settings.get("schedule") == "linear" else sum
    keys = (table_key(name, settings.get("image")) for name in pipeline.split("+"))
    tables_of = [tables[key] for key in keys if key in tables]
    files = [{row["part"]: row["file_bytes"] or 0 for row in table} for table in tables_of]
    return float(max((held(parts.values()) for parts in files if parts), default=0))
