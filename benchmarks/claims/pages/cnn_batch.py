"""docs/studies/cnn-batch.md."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from claims.kept import MIB, sweep
from claims.texts import Claim, says, table

if TYPE_CHECKING:
    import pandas as pd

PAGE = "docs/studies/cnn-batch.md"
NETWORKS = {"basic_cnn": "basic CNN", "alexnet": "AlexNet"}
SMALL, LARGE = "3x64x64", "3x224x224"
BATCHES = (1, 4, 16, 64, 256)


def claims() -> Iterator[Claim]:
    """In the page's order."""
    for network, title in (("basic_cnn", "**Basic CNN**"), ("alexnet", "**AlexNet**")):
        yield table(title, (_row(network, batch) for batch in BATCHES))
    yield from _killed()
    yield from _memory()


@cache
def _steps() -> pd.DataFrame:
    """Median seconds of each unlimited trial's phases, over the steps after the first."""
    phases = sweep("cnn-batch").phases
    later = phases[(phases["limit_label"] == "max") & (phases["round"] > 0)]
    keys = ["network", "shape", "batch", "trial", "phase"]
    return later.groupby(keys)["wall_s"].median().unstack()


def _image_ms(network: str, shape: str, batch: int, phase: str) -> float:
    return float(_steps().loc[(network, shape, batch), phase].median()) * 1e3 / batch


def _demand(network: str, shape: str, batch: int) -> float:
    trials = sweep("cnn-batch").trials
    wanted = {"network": network, "shape": shape, "batch": batch, "limit_label": "max"}
    for key, value in wanted.items():
        trials = trials[trials[key] == value]
    return float(trials["demand_bytes"].median()) / MIB


def _row(network: str, batch: int) -> list[object]:
    row: list[object] = [batch]
    for shape in (SMALL, LARGE):
        whole = f"{_image_ms(network, shape, batch, 'round'):.1f}"
        row += [whole, f"{_demand(network, shape, batch):.0f}"]
    return row


def _killed() -> Iterator[Claim]:
    trials = sweep("cnn-batch").trials
    killed = trials[trials["outcome"] == "oom-killed"]
    assert set(killed["network"] + killed["shape"] + killed["limit_label"]) == {
        f"basic_cnn{LARGE}2G"
    }
    assert set(trials["outcome"]) == {"ok", "oom-killed"}
    yield says(
        "The basic CNN at 2 GiB, where batches of {} and more are killed",
        f"{killed['batch'].min():.0f}",
    )


def _memory() -> Iterator[Claim]:
    begins = sorted(_demand("alexnet", shape, 1) for shape in (SMALL, LARGE))
    adds = {
        network: (_demand(network, LARGE, 256) - _demand(network, LARGE, 1)) / 255
        for network in NETWORKS
    }
    larger = next(
        batch
        for batch in (1, 2, 4, 8, 16)
        if _demand("basic_cnn", LARGE, batch) > _demand("alexnet", LARGE, batch)
    )
    yield says(
        "AlexNet begins at {} to {} MiB and",
        *(f"{mib:.0f}" for mib in begins),
    )
    yield says(
        "adds {} MiB an image of 224 × 224; the basic CNN begins lower, adds {} MiB an image, and is the"
        " larger of the two there from a batch of {} on",
        *(f"{adds[network]:.0f}" for network in ("alexnet", "basic_cnn")),
        larger,
    )
