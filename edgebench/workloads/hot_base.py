"""The hot-base workload: the runtime is imported, and a scan takes what memory it doesn't use."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from edgebench.workloads.engines.torch import import_torch
from edgebench.workloads.garbage_collection import collected_rounds
from edgebench.workloads.pages import PAGE
from edgebench.workloads.recorder import Recorder
from edgebench.workloads.round_control import READY
from edgebench.workloads.scanned_area import ScannedArea

_ANSWER_BYTES = 32


def run_hot_base(settings: dict[str, Any], recorder: Recorder) -> None:
    """Import torch, have the limit set to what it uses, and scan; torch works between the passes.

    Settings: ``gc``; ``area``, as of the scan workload, in which ``size_bytes`` None is
    ``planned_share`` of the limit. The harness sets the limit (its setting ``room_bytes``).

    Raises:
        WorkloadError: no such pass.
    """
    with recorder.span("import"):
        import_torch(recorder)
    limit = _limit_bytes(recorder)
    work, about = _small_network(), dict(settings["area"])
    if about["size_bytes"] is None:
        about["size_bytes"] = int(about["planned_share"] * limit) // PAGE * PAGE
    area, passes = ScannedArea(about), []
    with collected_rounds(settings) as before_pass:
        for name in about["passes"]:
            before_pass()
            made = area.make(name)
            work()
            # What stays of the area now leaves the runtime the rest.
            passes.append({**made, "resident_bytes": area.resident_bytes()})
    recorder.note(passes=passes)


def _limit_bytes(recorder: Recorder) -> int:
    """Ask the harness for the limit, and wait until it is set."""
    assert recorder.control is not None
    os.write(recorder.control, READY)
    return int(os.read(recorder.control, _ANSWER_BYTES))


def _small_network() -> Callable[[], object]:
    """What is returned does a little of what networks do."""
    import torch

    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 15 * 15, 10),
    ).eval()
    image = torch.zeros(1, 3, 32, 32)

    def work() -> None:
        with torch.inference_mode():
            network(image)

    return work
