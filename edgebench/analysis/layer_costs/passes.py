"""Whole passes: elapsed time, time of the layers and between them, and extra time at a limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgebench.analysis.layer_costs.table import LayerPhases, PassCost, PassTimes
from edgebench.results.spread import ratio_of, spread_of

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.results.spread import Ratio, Spread


def pass_times(
    layers: pd.DataFrame, phases: pd.DataFrame, steps: Mapping[tuple[Any, ...], LayerPhases]
) -> list[PassTimes]:
    """Unlimited first, then from the widest limit to the tightest.

    Args:
        layers: rows of ``Results.layers`` of one workload.
        phases: its rows of ``Results.phases``.
        steps: limit, network and layer → its steps.
    """
    keys = ["trial", "round"]
    clock = phases[phases["phase"] == "round"].set_index(keys)["wall_s"]
    # What is decoded after the prefill is not timed by layer.
    decoding = phases[phases["phase"] == "decode"].groupby(keys)["wall_s"].sum()
    clock = clock.sub(decoding.reindex(clock.index, fill_value=0.0))
    rounds = _covered(layers).join(clock.rename("clock"), how="inner")
    rounds["overlap"] = rounds["busy"] / rounds["covered"]
    rounds["glue"] = (rounds["clock"] - rounds["covered"]).clip(lower=0.0)
    limits = layers.drop_duplicates("trial").set_index("trial")[["limit_label", "limit_bytes"]]
    trials = rounds.groupby(level="trial").median().join(limits)
    made = [
        PassTimes(
            label=str(label),
            limit_bytes=number_or_none(own["limit_bytes"].median()),
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


def pass_cost(at: PassTimes, unlimited: PassTimes, walked: Ratio | None = None) -> PassCost:
    """The extra time of a pass at a limit, compared with the unlimited one.

    Args:
        at: the pass there.
        unlimited: the pass without a limit, of all processes.
        walked: the slowdown, where rounds are compared with unlimited ones of the same process.
    """
    extra = at.sum_s - unlimited.sum_s
    glue = at.glue_s - unlimited.glue_s
    ratio = walked or ratio_of(at.clock_s, unlimited.clock_s)
    return PassCost(
        at=at,
        slowdown=ratio.median,
        extra_s=extra,
        glue_extra_s=glue,
        glue_extra_share=fraction(glue, extra),
        surely_slower=ratio.is_more,
        ratio=ratio,
    )


def is_longer(one: LayerPhases, other: LayerPhases) -> bool:
    """Whether a layer surely takes longer in one: the intervals don't overlap."""
    longer, shorter = one.interval_s, other.interval_s
    return longer is not None and shorter is not None and longer[0] > shorter[1]


def fraction(part: float, whole: float) -> float | None:
    """Their ratio; None if the whole is not above 0."""
    return part / whole if whole > 0 else None


def _spread(values: pd.Series[float]) -> Spread:
    spread = spread_of(values.tolist())
    assert spread
    return spread


def number_or_none(value: Any) -> float | None:
    """The number; None for pandas' missing one."""
    return float(value) if value == value else None
