"""docs/remedies.md: what searches of ``advise`` found, and all that they tried."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from claims.kept import FIGURES, MIB, figures
from claims.texts import Claim, says, table

PAGE = "docs/remedies.md"
#: Networks as pages name them.
_TITLES = {
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "alexnet": "AlexNet",
    "mobilenet_v2": "MobileNetV2",
    "squeezenet1_1": "SqueezeNet",
    "convnext_tiny": "ConvNeXt-T",
    "swin_t": "Swin-T",
    "transformers:small-llama": "small Llama",
}
_ENDS = {"oom-killed": "killed", "timeout": "slower", "changed": "other results"}
_NOTHING = "–"


def claims() -> Iterator[Claim]:
    """The tables."""
    searches = list(_searches())
    yield table("## What was found", [_found(*one) for one in searches])
    pressed = [one for one in _data("advise_workloads").values() if one["pressed"]]
    took = [one.get("search_s", one["total_s"]) for one in pressed]
    yield says("A search took {} to {} s", *(f"{end(took):.0f}" for end in (min, max)))
    yield says("{} of {} inferences and trainings got no", *_unadvised())
    yield table("## Weights that don't fit", _ways())
    tried = [_tried(name, found, one) for name, found in searches for one in found["tried"]]
    yield table("## All that was tried", tried)


def _searches() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Workload, as the page names it, and its answer; those under pressure."""
    # The one training was searched twice, by either benchmark.
    kept = [("training resnet18 250M", _data("advise_training"))]
    for name, found in [*kept, *_data("advise_workloads").items()]:
        if found.get("pressed"):
            kind, network, _ = name.split()
            how = "training, Adam" if kind == "training" else kind
            yield f"{_TITLES.get(network, network)}, {how}", found


def _unadvised() -> tuple[int, int]:
    """Of the workloads without pressure: those that got no advice, and all."""
    ample = [one for name, one in _data("advise_workloads").items() if name.endswith(" 3G")]
    return sum(not (one.get("best") or {}).get("confirmed") for one in ample), len(ample)


def _data(benchmark: str) -> Any:
    """None: it was not measured yet."""
    file = FIGURES / f"{benchmark}.json"
    return json.loads(file.read_text())["data"] if file.exists() else None


def _found(name: str, found: Mapping[str, Any]) -> list[str]:
    best = found["best"] if found["best"] and found["best"]["confirmed"] else None
    slowdown = f"{found['slowdown']:.1f}" if found["slowdown"] else "killed"
    row = [name, str(found["limit_bytes"] // MIB), slowdown]
    if best is None:
        return [*row, "none", *[_NOTHING] * 5]
    often = (f"{best[key]} of {best['trials']}" for key in ("finished", "plain_finished"))
    ratio, free = (_number(best[key]) for key in ("ratio", "unlimited_ratio"))
    return [*row, best["name"], ratio, _between(best), *often, free]


def _tried(name: str, found: Mapping[str, Any], one: Mapping[str, Any]) -> list[str]:
    known = one["end"] == "ok"
    time = _number(one["ratio"]) if known else _ENDS.get(one["end"], "failed")
    between = _between(one) if known else _NOTHING
    limit = str(found["limit_bytes"] // MIB)
    return [name, limit, one["name"], time, between, str(one["trials"])]


def _number(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.2f}"


def _between(one: Mapping[str, Any]) -> str:
    low, high = one["low"], one["high"]
    return _NOTHING if low is None or high is None else f"{low:.2f} to {high:.2f}"


def _ways() -> Iterator[list[str]]:
    """The rows of the benchmark of ``stream``."""
    for row in (row for one in figures("stream_bound")["networks"].values() for row in one["rows"]):
        share = "max" if row["share"] is None else f"{row['share']:.2f}"
        slowdown, over = _number(row["slowdown"]), _number(row["over_bound"])
        ends = row["outcomes"]
        often = f"{ends.count('ok')} of {len(ends)}"
        network = _TITLES.get(row["network"], row["network"])
        yield [network, row["way"], share, slowdown, f"{row['bound']:.2f}", over, often]
