"""Whole passes: a round's time on the clock, its layers and its glue, and what a limit costs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgebench.blame.table import Pass, PassCost, Steps
from edgebench.results.summary import spread_of

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.results.summary import Spread


def passes_of(
    layers: pd.DataFrame, phases: pd.DataFrame, steps: Mapping[tuple[Any, ...], Steps]
) -> list[Pass]:
    """Unlimited first, then from the widest limit to the tightest.

    Args:
        layers: rows of ``Results.layers`` of one workload.
        phases: its rows of ``Results.phases``.
        steps: limit, network and layer → its steps.
    """
    clock = phases[phases["phase"] == "round"].set_index(["trial", "round"])["wall_s"]
    rounds = _covered(layers).join(clock.rename("clock"), how="inner")
    rounds["overlap"] = rounds["busy"] / rounds["covered"]
    rounds["glue"] = (rounds["clock"] - rounds["covered"]).clip(lower=0.0)
    limits = layers.drop_duplicates("trial").set_index("trial")[["limit_label", "limit_bytes"]]
    trials = rounds.groupby(level="trial").median().join(limits)
    made = [
        Pass(
            label=str(label),
            limit_bytes=known(own["limit_bytes"].median()),
            clock_s=_spread(own["clock"]),
            layers_s=sum(own_steps.pass_s for key, own_steps in steps.items() if key[0] == label),
            glue_s=float(own["glue"].median()),
            overlap=float(own["overlap"].median()),
        )
        for label, own in trials.groupby("limit_label", sort=False)
    ]
    return sorted(made, key=lambda one: -(one.limit_bytes or float("inf")))


def _covered(layers: pd.DataFrame) -> pd.DataFrame:
    """By trial and round: seconds of all layers added up, and those in which any was under way."""
    keys = ["trial", "round"]
    spans = layers[[*keys, "start_ns", "end_ns", "wall_s"]].sort_values([*keys, "start_ns"])
    until = spans.groupby(keys)["end_ns"].cummax().groupby([spans[k] for k in keys]).shift(1)
    begin = spans["start_ns"].where(until.isna() | (until < spans["start_ns"]), until)
    spans["covered"] = (spans["end_ns"] - begin).clip(lower=0) / 1e9
    sums = spans.groupby(keys)[["wall_s", "covered"]].sum()
    return sums.rename(columns={"wall_s": "busy"})


def cost_of(at: Pass, unlimited: Pass) -> PassCost:
    """What the limit of one pass costs against another."""
    extra = at.sum_s - unlimited.sum_s
    glue = at.glue_s - unlimited.glue_s
    return PassCost(
        at=at,
        slowdown=at.clock_s.median / unlimited.clock_s.median,
        extra_s=extra,
        glue_extra_s=glue,
        glue_blame=share_of(glue, extra),
        told_apart=at.clock_s.low > unlimited.clock_s.high,
    )


def share_of(part: float, whole: float) -> float | None:
    """Their ratio; None of nothing."""
    return part / whole if whole > 0 else None


def _spread(values: pd.Series[float]) -> Spread:
    spread = spread_of(values.tolist())
    assert spread
    return spread


def known(value: Any) -> float | None:
    """The number; None for pandas' missing one."""
    return float(value) if value == value else None
