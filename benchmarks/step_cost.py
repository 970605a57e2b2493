"""What being watched costs a training step: a step as a timed trial makes it ÷ a plain one.

Both kinds alternate inside one process in one cgroup, on one network and optimizer. The plain step
is torch alone: no spans, no marks, no notes. Of the other, two times are taken: what the trial
records for it, from its first boundary to its last; and all of it, with what is done after that
(counting right labels, writing events).
"""

from __future__ import annotations

import json
import os
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
from edgebench.spans import finished_spans
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


def steps(network: str, pairs: int) -> list[tuple[float, float, float]]:
    """Seconds of a watched step as recorded, of all of it, and of a plain one; in the cgroup."""
    events = os.memfd_create("events")
    training = prepared(settings(network), Recorder({**descriptors(own_files()), "events": events}))
    rng = random.Random(3)
    size = training.settings["batch"]
    numbers: list[int] = []

    def seconds(watched: bool) -> float:
        rows = np.array(rng.sample(range(len(training.data.train)), size))
        start = time.perf_counter()
        if watched:
            numbers.append(len(numbers))
            training.step(numbers[-1], rows, last=False)
        else:
            plain_step(training, rows)
        return time.perf_counter() - start

    for _ in range(WARM_UP):
        seconds(True)
        seconds(False)
    found = in_pairs(seconds, pairs, seed=4)
    recorded = recorded_s(events)[WARM_UP:]
    return [(own, *pair) for own, pair in zip(recorded, found, strict=True)]


def recorded_s(events: int) -> list[float]:
    """Seconds of each step by its events."""
    text = os.pread(events, os.fstat(events).st_size, 0).decode()
    spans = finished_spans(map(json.loads, text.splitlines()))
    return [span.wall_s for span in spans if span.phase == "round"]


def in_cgroup(network: str, pairs: int) -> list[tuple[float, float, float]]:
    """:func:`steps` in a process of its own, as a trial."""
    said = bytearray()
    command = [sys.executable, __file__, "inside", network, str(pairs)]
    record = measure_command(command, LimitSetting(), echo=said.extend)
    assert record.outcome == "ok", record.reason
    return [tuple(one) for one in json.loads(said.decode().splitlines()[-1])]


def ratio_text(ratios: list[float]) -> list[str]:
    """The median and its interval."""
    low, high = interval(ratios)
    return [f"{statistics.median(ratios):.4f}", f"{low:.4f} to {high:.4f}"]


def main(pairs: int) -> None:
    """Measure that many pairs of each network, the order within each drawn at random."""
    rows, data = [], {}
    for network, (shape, batch) in WORKLOADS.items():
        found = in_cgroup(network, pairs)
        plain_s = statistics.median(plain for *_, plain in found)
        more_s = statistics.median(own - plain for own, _, plain in found)
        row = [network, shape, batch, f"{plain_s * 1e3:.2f} ms", f"{more_s * 1e3:+.2f} ms", pairs]
        ratios = [own / plain for own, _, plain in found]
        whole = [whole / plain for _, whole, plain in found]
        rows.append([*row, *ratio_text(ratios), *ratio_text(whole)])
        data[network] = {"seconds": found, "ratios": ratios, "whole_ratios": whole}
    says = (
        "Seconds of a training step as a timed trial records it ÷ of a plain one, and of all that"
    )
    says += " the trial does for it. Aim of the first for LeNet: ≤ 1.05."
    header = ["network", "images", "batch", "plain step", "more", "pairs", "median ratio", "95 %"]
    report.write("step_cost", says, [*header, "ratio of all of it", "95 %"], rows, data)


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        print(json.dumps(steps(sys.argv[2], int(sys.argv[3]))))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
