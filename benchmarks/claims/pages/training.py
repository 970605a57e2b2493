"""docs/how-to/training.md."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from pairing import interval

from claims import training as t
from claims.kept import MIB, figures
from claims.texts import Claim, says, table

PAGE = "docs/how-to/training.md"
NETWORKS = {"lenet": "LeNet", "alexnet": "AlexNet", "resnet18": "ResNet-18"}
#: What a column of the page adds up.
COLUMNS = (
    ("base",),
    ("parameters", "gradients", "optimizer"),
    ("data", "input"),
    ("activations", "temporary"),
    ("libraries",),
    ("allocator-kept",),
    ("past-malloc", "files", "kernel", "swapped", "between-readings"),
)


def claims() -> Iterator[Claim]:
    """In the page's order."""
    yield table("What a limit costs\n", map(_limit, t.LABELS))
    yield from _step_cost()
    points = sorted(
        figures("training_categories"),
        key=lambda point: (list(NETWORKS).index(point["about"][0]), point["about"][1]),
    )
    more = max(_mark(point) / point["timed"] for point in points)
    yield says("measures the items held up to {} % more", f"{100 * (more - 1):.0f}")
    yield table("*Explained*", map(_items, points))


def _limit(label: str) -> list[str]:
    trials = t.trials(label)
    limit = trials["limit_bytes"].iloc[0] / MIB
    words = "unlimited" if label == "max" else f"{label.replace('%', ' %')} ({limit:.0f} MiB)"
    return [
        words,
        _both([float(x) / MIB for x in trials["swap_peak_bytes"]], 0) + " MiB",
        _both(t.first_steps_ms(label), 0),
        *(_both(t.later_ms(label, p), 1) for p in ("round", "data", "forward", "backward", "step")),
    ]


def _both(values: list[float], digits: int) -> str:
    """Both trials' values, once if they are printed alike."""
    return ", ".join(dict.fromkeys(f"{value:.{digits}f}" for value in values))


def _step_cost() -> Iterator[Claim]:
    cost = figures("step_cost")
    resnet, lenet = (_steps(cost[network]) for network in ("resnet18", "lenet"))
    yield says(
        "recorded as {} times as long as it takes in torch alone (95 % interval {} to {}); one of"
        " LeNet, which takes {} ms, as {} times ({} to {}; `python benchmarks/step_cost.py`, {} pairs)",
        *(f"{x:.3f}" for x in (resnet["ratio"], *resnet["interval"])),
        f"{lenet['plain_ms']:.0f}",
        *(f"{x:.3f}" for x in (lenet["ratio"], *lenet["interval"])),
        resnet["pairs"],
    )


def _steps(cost: dict[str, Any]) -> dict[str, Any]:
    """What a timed trial records for its steps, against plain ones."""
    return {
        "pairs": len(cost["seconds"]),
        "plain_ms": median(one[-1] for one in cost["seconds"]) * 1e3,
        "ratio": median(cost["ratios"]),
        "interval": interval(cost["ratios"]),
    }


def _mark(point: dict[str, Any]) -> float:
    items = {key: size for key, size in point.items() if key not in ("about", "timed")}
    return float(sum(items.values()))


def _items(point: dict[str, Any]) -> list[str]:
    network, batch = point["about"]
    sums = [sum(point[item] for item in column) for column in COLUMNS]
    mark = _mark(point)
    told = 1 - point["unexplained"] / mark
    sizes = (f"{size / MIB:.1f}" for size in (point["timed"], mark, *sums))
    return [NETWORKS[network], batch, *sizes, f"{100 * told:.1f} %"]
