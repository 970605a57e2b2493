"""Exact per-layer peaks must not disturb what they measure: what they cost.

A round with the kernel's mark read and reset at each boundary ÷ one without. Both kinds of round
alternate inside one process in one cgroup: trials of their own differ by more than what is asked.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from typing import Any

import report
from pairing import in_pairs, interval

from edgebench.cache import cache_folder
from edgebench.cgroups.hierarchy import hierarchies
from edgebench.cgroups.interface import HotFiles
from edgebench.cgroups.v1 import V1Cgroup
from edgebench.cgroups.v2 import V2Cgroup
from edgebench.identity import caller_identity
from edgebench.layers.pipeline import build_pipeline
from edgebench.records import LimitSetting
from edgebench.run.command import measure_command
from edgebench.workloads.engines.torch.runtime import import_torch
from edgebench.workloads.events import Descriptors
from edgebench.workloads.preparation import prepare_networks
from edgebench.workloads.recorder import Recorder

NETWORKS = ("resnet18", "mobilenet_v2")
SETTINGS: dict[str, Any] = {
    "schedule": "bulk",
    "loader": "copy",
    "batch": 1,
    "image": None,
    "warm": 4,
    "workers": 2,
    "seed": 0,
}
#: Rounds that no one counts: first ones make what stays.
WARM_UP = 3


def own_files() -> HotFiles:
    """The files of the cgroup that this process is in."""
    own = next(h for h in hierarchies() if "memory" in h.controllers and h.folder)
    assert own.folder is not None
    if own.version == 1:
        return V1Cgroup({"memory": own.folder}, lambda: None).hot_files()
    return V2Cgroup(own.folder, lambda: None).hot_files()


def descriptors(files: HotFiles) -> Descriptors:
    """What a worker of a timed trial has; its events go nowhere."""
    assert files.peak_resets, "this kernel can't reset its mark"
    assert files.peak
    return {
        "events": os.open(os.devnull, os.O_WRONLY),
        "usage": os.open(files.usage, os.O_RDONLY),
        "peak": os.open(files.peak, os.O_RDWR),
        "peak_resets": True,
        "swap": os.open(files.swap, os.O_RDONLY) if files.swap else None,
        "swap_is_memsw": files.swap_is_memsw,
        "stat": None,
        "kernel": None,
        "control": None,
        "records": None,
    }


def rounds(network: str, weights: str, pairs: int) -> list[tuple[float, float]]:
    """Seconds of a round with marks and of one without, in pairs; runs inside the cgroup."""
    recorder = Recorder(descriptors(own_files()))
    peak_fd = recorder._cgroup.peak_fd
    import_torch(recorder, [network])
    settings = {**SETTINGS, "networks": [network], "weights": {network: weights}}
    pipeline = build_pipeline(settings, recorder)

    def seconds(marked: bool) -> float:
        recorder._cgroup.peak_fd = peak_fd if marked else None
        start = time.perf_counter()
        pipeline.schedule.run(pipeline.inputs, 0)
        return time.perf_counter() - start

    for _ in range(WARM_UP):
        seconds(True)
    return in_pairs(seconds, pairs, seed=3)


def in_cgroup(network: str, weights: str, pairs: int) -> list[tuple[float, float]]:
    """:func:`rounds` in a process of its own, as a trial."""
    said = bytearray()
    command = [sys.executable, __file__, "inside", network, weights, str(pairs)]
    record = measure_command(command, LimitSetting(), echo=said.extend)
    assert record.outcome == "ok", record.reason
    return [(marked, plain) for marked, plain in json.loads(said.decode().splitlines()[-1])]


def main(pairs: int) -> None:
    """Measure that many pairs of each network, the order within each drawn at random."""
    rows, data = [], {}
    identity = caller_identity()
    made = prepare_networks(
        NETWORKS,
        cache=cache_folder(identity),
        seed=0,
        checkpoints={},
        batch=1,
        image=None,
        identity=identity,
    )
    for network in NETWORKS:
        found = in_cgroup(network, made["networks"][network]["folder"], pairs)
        ratios = [marked / plain for marked, plain in found]
        low, high = interval(ratios)
        layers = len(made["networks"][network]["table"])
        plain_s = statistics.median(plain for _, plain in found)
        median = f"{statistics.median(ratios):.4f}"
        rows.append(
            [network, layers, f"{plain_s:.3f} s", pairs, median, f"{low:.4f} to {high:.4f}"]
        )
        data[network] = {"seconds": found, "ratios": ratios}
    says = "Seconds of a round with the kernel's mark read and reset at each boundary ÷ without."
    header = ["network", "layers", "a round", "pairs", "median ratio", "95 % interval"]
    report.write("layer_peaks_cost", says, header, rows, data)


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        print(json.dumps(rounds(sys.argv[2], sys.argv[3], int(sys.argv[4]))))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
