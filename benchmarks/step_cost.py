"""What being watched costs a training step: a step as a timed trial makes it ÷ a plain one.

Both kinds alternate inside one process in one cgroup, on one network and optimizer. The plain step
is torch alone: no spans, no marks, no notes.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from typing import Any

import numpy as np
import report
from layer_peaks_cost import descriptors, own_files
from pairing import in_pairs, interval

from edgebench.records import LimitSetting
from edgebench.run.command import measure_command
from edgebench.scenario.scenario import scenario_of
from edgebench.workloads.recorder import Recorder
from edgebench.workloads.training.loop import TrainingLoop, prepared

#: Network → what it is trained on: shape of an image, batch.
WORKLOADS = {"lenet": ("1x28x28", 64), "resnet18": ("3x64x64", 16)}
#: Steps that no one counts: first ones make what stays.
WARM_UP = 5


def settings(network: str) -> dict[str, Any]:
    """The settings of one network as its scenario resolves them."""
    shape, batch = WORKLOADS[network]
    workload = {"kind": "training", "network": network, "data": "synthetic", "shape": shape}
    tables = {"schema": 1, "name": "made", "workload": {**workload, "batch": batch}}
    (made,) = scenario_of(tables).workload_settings()
    return made


def plain_step(training: TrainingLoop, rows: Any) -> float:
    """One step in torch's own words; its loss."""
    import torch
    from torch.nn.functional import cross_entropy

    trained: Any = training.trained
    examples = training.data.train
    images = torch.from_numpy(examples.images[rows])
    numbers = images.to(torch.float32).div_(training.data.brightest)
    loss = cross_entropy(trained.network(numbers), torch.from_numpy(examples.labels[rows]))
    loss.backward()
    trained.optimizer.step()
    trained.optimizer.zero_grad(set_to_none=True)
    return float(loss.item())


def steps(network: str, pairs: int) -> list[tuple[float, float]]:
    """Seconds of a watched step and of a plain one, in pairs; runs inside the cgroup."""
    training = prepared(settings(network), Recorder(descriptors(own_files())))
    rng = random.Random(3)
    size = training.settings["batch"]

    def seconds(watched: bool) -> float:
        rows = np.array(rng.sample(range(len(training.data.train)), size))
        start = time.perf_counter()
        if watched:
            training.step(0, rows, last=False)
        else:
            plain_step(training, rows)
        return time.perf_counter() - start

    for _ in range(WARM_UP):
        seconds(True)
        seconds(False)
    return in_pairs(seconds, pairs, seed=4)


def in_cgroup(network: str, pairs: int) -> list[tuple[float, float]]:
    """:func:`steps` in a process of its own, as a trial."""
    said = bytearray()
    command = [sys.executable, __file__, "inside", network, str(pairs)]
    record = measure_command(command, LimitSetting(), echo=said.extend)
    assert record.outcome == "ok", record.reason
    return [(watched, plain) for watched, plain in json.loads(said.decode().splitlines()[-1])]


def main(pairs: int) -> None:
    """Measure that many pairs of each network, the order within each drawn at random."""
    rows, data = [], {}
    for network, (shape, batch) in WORKLOADS.items():
        found = in_cgroup(network, pairs)
        ratios = [watched / plain for watched, plain in found]
        low, high = interval(ratios)
        plain_s = statistics.median(plain for _, plain in found)
        more_s = statistics.median(watched - plain for watched, plain in found)
        rows.append(
            [
                *(network, shape, batch, f"{plain_s * 1e3:.2f} ms", f"{more_s * 1e3:+.2f} ms"),
                *(pairs, f"{statistics.median(ratios):.4f}", f"{low:.4f} to {high:.4f}"),
            ]
        )
        data[network] = {"seconds": found, "ratios": ratios}
    says = "Seconds of a training step as a timed trial makes it ÷ of a plain one. Aim: ≤ 1.02."
    header = ["network", "images", "batch", "plain step", "more", "pairs", "median ratio", "95 %"]
    report.write("step_cost", says, header, rows, data)


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        print(json.dumps(steps(sys.argv[2], int(sys.argv[3]))))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
