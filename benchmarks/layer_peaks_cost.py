"""Exact per-layer peaks must not disturb what they measure: what they cost.

A round with the kernel's mark read and reset at each boundary ÷ one without, in pairs of trials.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import report
from overhead import interval

from edgebench.cgroups.interface import HotFiles
from edgebench.cgroups.v1 import V1Cgroup
from edgebench.cgroups.v2 import V2Cgroup
from edgebench.preparing import cache_folder, prepare_networks
from edgebench.recording import TrialRequest
from edgebench.records import LimitSetting
from edgebench.trial import TrialFiles, run_trial
from edgebench.workshop import Workshop, open_workshop

NETWORKS = ("resnet18", "mobilenet_v2")
SETTINGS: dict[str, Any] = {
    "kind": "inference",
    "schedule": "bulk",
    "loader": "copy",
    "batch": 1,
    "image": None,
    "rounds": 6,
    "warm": 4,
    "threads": None,
    "workers": 2,
    "page_cache": "warm",
    "seed": 0,
}


@contextmanager
def without_marks() -> Iterator[None]:
    """Trials meanwhile have no high-water mark to read or reset."""
    kept = {kind: kind.hot_files for kind in (V1Cgroup, V2Cgroup)}

    def hidden(whole: Any) -> Any:
        def hot_files(self: Any) -> HotFiles:
            return replace(whole(self), peak=None, peak_resets=False)

        return hot_files

    try:
        for kind, whole in kept.items():
            kind.hot_files = hidden(whole)  # type: ignore[method-assign]
        yield
    finally:
        for kind, whole in kept.items():
            kind.hot_files = whole  # type: ignore[method-assign]


def round_s(workshop: Workshop, network: str, weights: str, folder: Path) -> float:
    """Median seconds of a trial's warm rounds: the first is left out."""
    settings = {**SETTINGS, "networks": [network]}
    files = TrialFiles(folder / "s.npz", folder / "e.gz", folder / "log", workshop.folder)
    request = TrialRequest("pair", "p1", 0, 0, settings, LimitSetting(), 300, {network: weights})
    record = run_trial(workshop.apparatus, request, files)
    assert record.outcome == "ok", record.reason
    walls = [phase.wall_s for phase in record.phases if phase.phase == "round" and phase.round > 0]
    return statistics.median(walls)


def main(pairs: int) -> None:
    """Measure that many pairs of each network, the order within each drawn at random."""
    rng = random.Random(3)
    rows, data = [], {}
    with open_workshop() as workshop, tempfile.TemporaryDirectory() as folder:
        identity = workshop.apparatus.identity
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
            weights = made["networks"][network]["folder"]
            about = (workshop, network, weights, Path(folder))
            seconds = []
            for _ in range(pairs):
                if rng.random() < 0.5:
                    marked = round_s(*about)
                    with without_marks():
                        seconds.append((marked, round_s(*about)))
                else:
                    with without_marks():
                        plain = round_s(*about)
                    seconds.append((round_s(*about), plain))
            ratios = [marked / plain for marked, plain in seconds]
            low, high = interval(ratios)
            layers = len(made["networks"][network]["table"])
            median = f"{statistics.median(ratios):.4f}"
            rows.append([network, layers, pairs, median, f"{low:.4f} to {high:.4f}"])
            data[network] = {"seconds": seconds, "ratios": ratios}
    says = "Seconds of a warm round with the kernel's mark reset at each boundary ÷ without."
    header = ["network", "layers", "pairs", "median ratio", "95 % interval of the median"]
    report.write("layer_peaks_cost", says, header, rows, data)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
