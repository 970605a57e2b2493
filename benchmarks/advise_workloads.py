"""What ``advise`` finds: eight workloads at two limits each, and twenty without pressure.

``python benchmarks/advise_workloads.py [--only WORD…] [--budget DURATION]``, as root, on a machine
that does nothing else: up to five minutes for each search, one for three workloads without
pressure. Reads of swap and weights are held to a declared speed. Each answer is kept as it comes in
``results/advise_workloads.json``, and the same command goes on with those that lack; ``--only``
names those whose names contain a word. Aims: of the searches where the limit slows the workload
twice or more, three in four gain 1.5 times or more in fresh pairs; of the workloads without
pressure, 19 in 20 get no advice.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import report

STORAGE = "read=200MB/s"
KEPT = report.RESULTS / "advise_workloads.json"
#: A small language model: no file is downloaded, weights are random.
LANGUAGE_MODEL = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 640,
    "num_hidden_layers": 12,
    "num_attention_heads": 10,
    "intermediate_size": 1728,
    "vocab_size": 8000,
}
LANGUAGE = "transformers:small-llama"
#: Network → the two limits. AlexNet has 233 MiB of weights, ResNet-50 98, the others about 110.
INFERENCES = {
    "alexnet": ("215M", "160M"),
    "resnet50": ("125M", "100M"),
    "convnext_tiny": ("130M", "105M"),
    "swin_t": ("140M", "115M"),
}
TRAININGS = {
    "resnet18": ("250M", "220M"),
    "mobilenet_v2": ("250M", "220M"),
    "squeezenet1_1": ("150M", "130M"),
}
LANGUAGE_LIMITS = ("230M", "180M")
#: Without pressure: a limit far above the demand of each.
AMPLE = "3G"
UNPRESSED = (
    *("alexnet", "resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_small", "squeezenet1_0"),
    *("squeezenet1_1", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "densenet121", "googlenet"),
    *("efficientnet_b0", "mnasnet0_5", "regnet_y_400mf", "convnext_tiny", "lenet"),
)
UNPRESSED_TRAININGS = ("resnet18", "mobilenet_v2", "squeezenet1_1", "lenet")
#: A limit that slows by so much is one that a remedy should help against, by so much.
SLOWED, GAIN = 2.0, 1.5
_TRAINING = """schema = 1
name = "{name}"
timeout = "3m"
[workload]
kind = "training"
network = "{network}"
data = "synthetic"
shape = "{shape}"
optimizer = "adam"
learning_rate = 0.0001
batch = 16
steps = 6
[limits]
memory = ["max", "{limit}"]
swap = "2G"
storage = "{storage}"
"""


@dataclass(frozen=True)
class AdviceCase:
    """One search: its name, the workload, the limit, and whether that limit presses it."""

    kind: str
    network: str
    limit: str
    pressed: bool

    @property
    def name(self) -> str:
        """``training resnet18 250M``."""
        return f"{self.kind} {self.network} {self.limit}"


def cases() -> Iterator[AdviceCase]:
    """All of them, those with pressure first."""
    for kind, listed in (("inference", INFERENCES), ("training", TRAININGS)):
        for network, limits in listed.items():
            yield from (AdviceCase(kind, network, limit, pressed=True) for limit in limits)
    yield from (AdviceCase("inference", LANGUAGE, one, pressed=True) for one in LANGUAGE_LIMITS)
    yield from (AdviceCase("inference", one, AMPLE, pressed=False) for one in UNPRESSED)
    yield from (AdviceCase("training", one, AMPLE, pressed=False) for one in UNPRESSED_TRAININGS)


def words_of(case: AdviceCase, folder: Path) -> list[str]:
    """What ``advise`` is asked, beside the flags that all have."""
    if case.kind == "training":
        file = folder / "training.toml"
        shape = "1x28x28" if case.network == "lenet" else "3x96x96"
        about = {"network": case.network, "limit": case.limit, "storage": STORAGE, "shape": shape}
        file.write_text(_TRAINING.format(name=case.network.replace("_", "-"), **about))
        return [file.name]
    network = case.network
    if network == LANGUAGE:
        config = folder / network.partition(":")[2]
        config.mkdir()
        (config / "config.json").write_text(json.dumps(LANGUAGE_MODEL))
        network = f"transformers:{config.name}"
    flags = ["--memory", case.limit, "--swap", "2G", "--storage", STORAGE, "--warm", "2"]
    return [network, *flags]


def searched(case: AdviceCase, budget: str) -> dict[str, Any]:
    """The answer of one search, or why there is none; ``search_s``: what the command took."""
    with tempfile.TemporaryDirectory() as made:
        words = [*words_of(case, Path(made)), "--budget", budget, "--json"]
        command = [sys.executable, "-m", "edgebench", "advise", *words]
        began_s = time.monotonic()
        done = subprocess.run(command, cwd=made, stdout=subprocess.PIPE, text=True, check=False)
        whole_s = time.monotonic() - began_s
    if done.returncode:
        return {"failed": done.returncode}
    found = json.loads(done.stdout) | {"search_s": whole_s}
    return {key: found[key] for key in found if key not in ("asked", "folder", "untried")}


def gain(found: Mapping[str, Any]) -> float | None:
    """How many times faster the advised remedy makes it; None: nothing is advised."""
    best = found.get("best")
    return 1 / best["ratio"] if best and best["confirmed"] and best["ratio"] else None


def row(case: AdviceCase, found: Mapping[str, Any]) -> list[str]:
    """Of a search in the table."""
    best = found.get("best") or {}
    advised = best["name"] if best.get("confirmed") else "none"
    slowdown, factor = found.get("slowdown"), gain(found)
    state = "-" if slowdown is None else f"{slowdown:.2f}"
    between = "-"
    if factor and best["high"]:
        between = f"{1 / best['high']:.2f} to {1 / best['low']:.2f}"
    often = f"{best['finished']} of {best['trials']}" if best else "-"
    told = "-" if factor is None else f"{factor:.2f}"
    took_s = found.get("search_s", found.get("total_s"))
    took = "failed" if took_s is None else f"{took_s:.0f}"
    return [case.kind, case.network, case.limit, state, advised, told, between, often, took]


def says(kept: Mapping[str, Any]) -> str:
    """What came of it so far."""
    done = [(case, kept[case.name]) for case in cases() if case.name in kept]
    slowed = [found for case, found in done if case.pressed and _is_slowed(found)]
    gained = sum((gain(found) or 0.0) >= GAIN for found in slowed)
    saved = sum(_makes_it_fit(found) for case, found in done if case.pressed)
    free = [found for case, found in done if not case.pressed]
    quiet = sum(not (found.get("best") or {}).get("confirmed") for found in free)
    return (
        f"Searches of advise, storage {STORAGE}. Where a limit slows {SLOWED:g} times or more: "
        f"{gained} of {len(slowed)} gain {GAIN:g} times or more, measured anew. Killed without a "
        f"remedy and advised one: {saved}. Without pressure: no advice in {quiet} of {len(free)}."
    )


def _is_slowed(found: Mapping[str, Any]) -> bool:
    return found.get("plain_end") == "ok" and (found.get("slowdown") or 0.0) >= SLOWED


def _makes_it_fit(found: Mapping[str, Any]) -> bool:
    best = found.get("best") or {}
    return found.get("plain_end") not in ("ok", None) and bool(best.get("confirmed"))


def main() -> None:
    """Search for each that has no answer yet; write after each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--budget", default="5m")
    asked = parser.parse_args()
    kept: dict[str, Any] = json.loads(KEPT.read_text())["data"] if KEPT.exists() else {}
    for case in cases():
        wanted = not asked.only or any(word in case.name for word in asked.only)
        if not wanted or (case.name in kept and "failed" not in kept[case.name]):
            continue
        kept[case.name] = searched(case, asked.budget)
        rows = [row(one, kept[one.name]) for one in cases() if one.name in kept]
        header = ["workload", "network", "limit", "slowdown", "advised", "times faster"]
        header += ["95 % interval", "finished", "search, s"]
        report.write("advise_workloads", says(kept), header, rows, kept)


if __name__ == "__main__":
    main()
