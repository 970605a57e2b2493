"""What the edgecaffe sweep shows; used by several pages."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from claims.kept import folder, sweep

if TYPE_CHECKING:
    import pandas as pd

PHASES = ("load", "first", "execute")
TIGHTEST_MIB = 128
LIMITS_MIB = (768, 512, 384, 320, 256, 192, 128)


@cache
def mean_seconds() -> pd.Series[float]:
    """Mean seconds of a pass of steady rounds under ``bulk``, by network, phase and limit."""
    phases = sweep("edgecaffe").phases
    phases = phases[phases["stage"] == "steady"]
    bulk = phases[(phases["schedule"] == "bulk") & phases["phase"].isin(PHASES)]
    each = bulk.assign(seconds=bulk["wall_s"] / bulk["passes"])
    return each.groupby(["network", "phase", "limit_label"])["seconds"].mean()


def ratio(network: str, phase: str, limit: str = f"{TIGHTEST_MIB}M") -> float:
    """How many times slower a phase is than unlimited, of means."""
    of = mean_seconds()
    return float(of[network, phase, limit] / of[network, phase, "max"])


@cache
def rounds() -> pd.Series[float]:
    """Median seconds of a trial's steady round, by schedule, limit and trial."""
    phases = sweep("edgecaffe").phases
    whole = phases[(phases["phase"] == "round") & (phases["stage"] == "steady")]
    whole = whole[whole["outcome"] == "ok"]
    return whole.groupby(["schedule", "limit_label", "trial"])["wall_s"].median()


def round_s(schedule: str, limit: str) -> float:
    """The median of the trials' rounds."""
    return float(rounds()[schedule, limit].median())


def demand_mib(schedule: str) -> float:
    """The median of the unlimited trials' demand."""
    trials = sweep("edgecaffe").trials
    own = trials[(trials["schedule"] == schedule) & (trials["limit_label"] == "max")]
    return float(own["demand_bytes"].median() / 2**20)


def slowed_by_half(schedule: str) -> tuple[int, int]:
    """The first two neighbouring limits, in MiB, of which the tighter alone takes 1.5 times as long."""
    free_s = round_s(schedule, "max")
    for wide, tight in pairwise(LIMITS_MIB):
        if round_s(schedule, f"{tight}M") >= 1.5 * free_s:
            return wide, tight
    raise ValueError(schedule)


def layer_s(name: str, phase: str, limit: str) -> float:
    """Median seconds of one of AlexNet's layers under ``bulk``."""
    return median(_layers(limit)[name, phase])


@cache
def _layers(limit: str) -> dict[tuple[str, str], list[float]]:
    """Seconds of AlexNet's layers by name and phase, of all trials under ``bulk``."""
    trials = sweep("edgecaffe").trials
    own = trials[(trials["schedule"] == "bulk") & (trials["limit_label"] == limit)]
    took: dict[tuple[str, str], list[float]] = {}
    for trial in own["trial"]:
        starts: dict[int, tuple[tuple[str, str], int]] = {}
        for event in sweep("edgecaffe").events(trial):
            if event["event"] == "start" and event["network"] == "alexnet":
                starts[event["id"]] = (event["name"], event["phase"]), event["t_ns"]
            elif event["event"] == "end" and event["id"] in starts:
                of, began_ns = starts[event["id"]]
                took.setdefault(of, []).append((event["t_ns"] - began_ns) / 1e9)
    return took


def layer_bytes(name: str) -> int:
    """Parameters of one of AlexNet's layers."""
    networks = json.loads((folder("edgecaffe") / "networks.json").read_text())["networks"]
    layers = networks["alexnet"]["table"]
    return next(int(layer["parameter_bytes"]) for layer in layers if layer["name"] == name)
