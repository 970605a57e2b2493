"""docs/remedies.md: what searches of ``advise`` found."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from claims.kept import FIGURES, MIB
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
_NOTHING = "–"


def claims() -> Iterator[Claim]:
    """The tables."""
    searches = list(_searches())
    yield table("## What was found", [_found(*one) for one in searches])
    yield says("{} of {} inferences and trainings got no", *_unadvised())


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


def _number(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.2f}"


def _between(one: Mapping[str, Any]) -> str:
    low, high = one["low"], one["high"]
    return _NOTHING if low is None or high is None else f"{low:.2f} to {high:.2f}"
