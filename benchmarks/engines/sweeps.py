"""Sweeps of the same network in several engines, by edgebench's own verb and results."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import edgebench
from benchmarks.engines.same_network import ENGINES

TORCH = "torch"


@dataclass(frozen=True)
class Setting:
    """How networks are swept: executions after the first, limits, and what swap is held to."""

    warm: int
    memory: Sequence[str] = ("max",)
    swap: str = "none"
    storage: str | None = None
    timeout: str = "2m"


@dataclass
class Trial:
    """One trial: its outcome, and the seconds of its phases, of ``execute`` the mean of one."""

    engine: str
    network: str
    limit: str
    outcome: str
    base_bytes: float | None
    demand_bytes: float | None
    seconds: dict[str, float] = field(default_factory=dict)


def sweep(
    folder: Path, engines: Sequence[str], networks: Sequence[str], setting: Setting, seed: int
) -> list[Trial]:
    """Run each network once at each limit in these engines; torch by layer in bulk, alone.

    torch's scenario says another schedule than those of files, so it is a sweep of its own.
    """
    scenario = folder / f"{'-'.join(engines)}.toml"
    scenario.write_text(scenario_text(engines, networks, setting, seed))
    words = ["run", scenario.name, "--results", "results", "--device", "bench", "--fresh", "--json"]
    command = [sys.executable, "-m", "edgebench", *words]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    # 3: some trials ended otherwise than planned, as by their time limit; the others count.
    if done.returncode not in (0, 3):
        raise SystemExit(f"the sweep failed: {scenario}")
    return trials_of(folder / json.loads(done.stdout)["folder"])


def scenario_text(
    engines: Sequence[str], networks: Sequence[str], setting: Setting, seed: int
) -> str:
    """The scenario as a file has it."""
    torch = list(engines) == [TORCH]
    files = [name if torch else name + ENGINES[one] for one in engines for name in networks]
    lines = [
        'schema = 1\nname = "engines"\nrepeats = 1',
        f'seed = {seed}\ntimeout = "{setting.timeout}"',
        '\n[workload]\nkind = "inference"\nthreads = 1',
        f"network = {json.dumps(files)}\nwarm = {setting.warm}",
    ]
    if torch:
        weights = ", ".join(f'{name} = "{name}{ENGINES[TORCH]}"' for name in networks)
        lines.append(f'schedule = "bulk"\ncheckpoint = {{{weights}}}')
    lines.append(
        f'\n[limits]\nmemory = {json.dumps(list(setting.memory))}\nswap = "{setting.swap}"'
    )
    if setting.storage:
        lines.append(f'storage = {{read = "{setting.storage}"}}')
    return "\n".join(lines) + "\n"


def trials_of(folder: Path) -> list[Trial]:
    """Every trial of a sweep."""
    results = edgebench.load(folder)
    phases = results.phases.assign(each_s=results.phases["wall_s"] / results.phases["passes"])
    found = []
    for row in results.trials.to_dict("records"):
        own = phases[phases["trial"] == row["trial"]]
        known = {key: row[key] if row[key] == row[key] else None for key in _BYTES}
        found.append(
            Trial(
                row["engine"] if isinstance(row["engine"], str) else TORCH,
                Path(row["network"]).stem,
                row["limit_label"],
                row["outcome"],
                **known,
                seconds=dict(zip(own["phase"], own["each_s"].map(float), strict=True)),
            )
        )
    return found


_BYTES = ("base_bytes", "demand_bytes")


def median_s(trials: Sequence[Trial], phase: str) -> float | None:
    """The median seconds of a phase, of those trials that finished."""
    known = [one.seconds[phase] for one in trials if one.outcome == "ok" and phase in one.seconds]
    return statistics.median(known) if known else None
