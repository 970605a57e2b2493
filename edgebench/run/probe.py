"""A probe: one walk without a limit, whose pages are marked, and one slowed visit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgebench.run.sweep.sweep import SweepOptions, run_sweep
from edgebench.run.sweep.trial_loop import Progress
from edgebench.scenario.flag_scenario import scenario_from_flags
from edgebench.scenario.limits import WALK

#: Settings that the probed workload shares with the one that was asked about.
_SHARED = ("schedule", "loader", "batch", "image", "threads", "warm")


def run_probe(
    network: str,
    settings: Mapping[str, Any],
    limit_bytes: float,
    results: Path,
    progress: Progress,
    device: str | None = None,
) -> Path:
    """Walk to a limit, keep it as a sweep, and return its folder.

    Args:
        network: as a person names it.
        settings: the workload's; swap and storage are those that it is asked about with.
        limit_bytes: where it should be slowed.
        results: the folder of all devices.
        progress: shows the trial.
        device: its name; None: this machine's.

    Raises:
        EdgebenchError: the machine can't run it.
    """
    # Frames have whole numbers as floats, and NaN, which is not itself, for none.
    known = {k: v for k in _SHARED if (v := settings.get(k)) is not None and v == v}
    whole = {k: int(v) if isinstance(v, float) else v for k, v in known.items()}
    limits: dict[str, Any] = {
        "memory": ["max", f"{limit_bytes / (1 << 20):.0f}M"],
        "swap": _swap(settings),
        "plan": WALK,
        # No fresh process starts at the limit.
        "starts": ["max"],
    }
    if storage := settings.get("storage"):
        limits["storage"] = storage
    workload = {"kind": "inference", "network": network, "rounds": 3, **whole}
    scenario = scenario_from_flags("probe", workload, limits, repeats=1)
    return run_sweep(scenario, SweepOptions(results, device, fresh=True), progress).folder


def _swap(settings: Mapping[str, Any]) -> str:
    kind, size = settings.get("swap_kind", "none"), settings.get("swap_bytes")
    if kind in ("none", "system") or size is None or size != size:
        return "system" if kind == "system" else "none"
    return f"{kind}:{float(size) / (1 << 20):.0f}M"
