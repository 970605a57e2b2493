"""docs/studies/engines.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from claims.kept import MIB, figures
from claims.texts import Claim, table

PAGE = "docs/studies/engines.md"
TITLES = {
    "torch": "PyTorch",
    "onnxruntime": "ONNX Runtime",
    "litert": "LiteRT",
    "tensorflow": "TensorFlow",
}
NETWORKS = {"resnet18": "ResNet-18", "mobilenet_v2": "MobileNetV2"}


def claims() -> Iterator[Claim]:
    """Memory, time without a limit, time at each limit."""
    yield table("## Memory", _rows(memory))
    yield table("## Time without a limit", _rows(_times))
    yield table("## Time at a limit", _rows(lambda row: [slower(row, one) for one in limits()]))


def engine_rows() -> list[dict[str, Any]]:
    """What was measured: a row a network and engine."""
    rows: list[dict[str, Any]] = figures("engines")["rows"]
    return rows


def limits() -> list[str]:
    """The limits at which all were measured."""
    asked: list[str] = figures("engines")["limits"]
    return asked


def names(row: Mapping[str, Any]) -> list[str]:
    """The network and the engine as people write them."""
    return [NETWORKS[row["network"]], TITLES[row["engine"]]]


def memory(row: Mapping[str, Any]) -> list[str]:
    """Import's base, demand and the least limit, in MiB."""
    sizes = [median(row["base_bytes"]), median(row["demand_bytes"]), row["least_limit_bytes"]]
    return ["-" if size is None else f"{size / MIB:.0f} MiB" for size in sizes]


def milliseconds(row: Mapping[str, Any], phase: str) -> str:
    """The median of a phase without a limit, with three digits."""
    ms = 1000 * median(row["seconds"][phase])
    return f"{ms:.1f} ms" if ms < 100 else f"{ms:.0f} ms"


def slower(row: Mapping[str, Any], limit: str) -> str:
    """The factor at this limit with its range, or what became of the trials."""
    factors: Sequence[float] = row["slower"][limit]
    lost = Counter(outcome for outcome in row["outcomes"][limit] if outcome != "ok")
    ended = [f"{count} of {len(row['outcomes'][limit])} {name}" for name, count in lost.items()]
    if len(factors) > 1:
        spread = f"{median(factors):.2f} ({min(factors):.2f} to {max(factors):.2f})"
    else:
        spread = "".join(f"{factor:.2f}" for factor in factors)
    return "; ".join(filter(None, [spread, *ended]))


def _times(row: Mapping[str, Any]) -> list[str]:
    return [milliseconds(row, phase) for phase in ("import", "load", "first", "execute")]


def _rows(cells: Callable[[Mapping[str, Any]], list[str]]) -> Iterator[list[str]]:
    for row in engine_rows():
        yield [*names(row), *cells(row)]
