"""What puts a calibration's constants in doubt, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from edgebench.measures.machine.noise import FOREIGN_SHARE, STEAL_SHARE
from edgebench.slowdown.calibration.device import Constant
from edgebench.units import format_size

#: Between the lowest and the highest repeat, as a share of the median.
_WIDE_SPREAD = 0.5
#: Pages per fault, θ and the like have a spread that costs nothing.
_TIMED = ("bytes/s", "s")


def calibration_noise_warnings(noise: Sequence[Mapping[str, Any]]) -> list[str]:
    """Was the machine quiet? From each trial's ``noise``."""
    doubts = []
    foreign, stolen = (
        median([one[key] for one in noise if one.get(key) is not None] or [0.0])
        for key in ("foreign_cpu_share", "steal_share")
    )
    if foreign > FOREIGN_SHARE:
        doubts.append(
            f"other programs used {foreign:.0%} of the CPU (median of {len(noise)} trials): "
            "end them (`top` names them) and calibrate again"
        )
    if stolen > STEAL_SHARE:
        doubts.append(
            f"the hypervisor took {stolen:.0%} of the CPU time (median of {len(noise)} trials): "
            "calibrate again when its other machines are quiet"
        )
    throttled = sum(one.get("throttled_events") or 0 for one in noise)
    if throttled:
        doubts.append(
            f"the CPU was throttled ({throttled} events): cool the machine and calibrate again"
        )
    return doubts


def other_swap_warnings(other_bytes: Mapping[str, int]) -> list[str]:
    """Which swap besides the calibrated one was on, with its size."""
    return [
        f"other swap was on ({name}, {format_size(size)}), and scans may have gone there: "
        f"turn it off (swapoff {name}) and calibrate again, or calibrate it: --swap system"
        for name, size in other_bytes.items()
    ]


def constant_spread_warnings(constants: Mapping[str, Constant | None]) -> list[str]:
    """Which times and rates differ much between their repeats."""
    return [
        f"{name} spreads from {found.low:.3g} to {found.high:.3g} {found.unit} "
        f"(median {found.value:.3g}, {found.repeats} repeats): predictions are no surer than that"
        for name, found in constants.items()
        if found and found.unit in _TIMED and found.high - found.low > _WIDE_SPREAD * found.value
    ]
