"""Do walks tell the truth? Networks, schedules and loaders: walked, and by fresh trials.

Both at the same limits, with a declared storage speed. Told of each workload: the median difference
of steady rounds, and the largest one where a limit slows 1.5 times or more. Limits at which the way
up differs from the way down by more than a tenth are told apart: there both answers are true. The
figure draws that hysteresis.

    python benchmarks/walk_truth.py [--quick] [--networks A,B] [--schedules A,B] [--loaders A,B]
                                    [--limits N] [--repeats N] [--results FOLDER]
                                    [--with FOLDER]

All of it takes hours, so it can be made in parts: ``--with`` tells of the newest sweeps in another
results folder, too. One network with one schedule, one loader, four limits and one repeat takes
minutes. ``--quick`` (a small network, two limits) shows that it works, and writes nothing that is
kept: its figure goes into the sweep's folder.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import report

from edgebench.cli.progress import shown_progress
from edgebench.report.figures import scales, style
from edgebench.results.results import Results, load
from edgebench.results.steady import steadiness
from edgebench.run.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import scenario_of
from edgebench.units import MIB

_LARGER, _SMALL = ("alexnet", "resnet50", "resnet18"), ("efficientnet_b0", "mobilenet_v2")
NETWORKS = (*_LARGER, *_SMALL, "squeezenet1_1")
SCHEDULES = ("bulk", "linear")
LOADERS = ("copy", "mmap")
FIGURE = Path(__file__).parents[1] / "docs" / "figures"
STORAGE = "read=400MB/s,disk=ram"
#: Up and down differ by more: inside the hysteresis.
HYSTERESIS = 1.1
#: From this slowdown on the largest difference is told.
SLOWED = 1.5
#: A fresh trial's rounds: its start, and enough to repeat.
ROUNDS = 6
#: Panels of the figure side by side.
_COLUMNS = 4

Key = tuple[Any, ...]
_WORKLOAD = ("network", "schedule", "loader")


@dataclass(frozen=True)
class Asked:
    """What is compared."""

    networks: Sequence[str] = NETWORKS
    schedules: Sequence[str] = SCHEDULES
    loaders: Sequence[str] = LOADERS
    limits: int = 10
    repeats: int = 3
    rounds: int = ROUNDS

    def tables(self, plan: str) -> dict[str, Any]:
        """The scenario of one plan; both have the same workloads, limits and storage."""
        return {
            "schema": 1,
            "name": f"truth-{plan}",
            "repeats": self.repeats,
            "timeout": "30m",
            "workload": {
                "kind": "inference",
                "network": list(self.networks),
                "schedule": list(self.schedules),
                "loader": list(self.loaders),
                "rounds": self.rounds,
                # A limit slows executions: with several of them, it shows beside the loading.
                "warm": 3,
                # A core is left for what else the machine does: else each pass waits for it.
                "threads": 1,
            },
            "limits": {
                "memory": {"from": "110%", "to": "30%", "steps": self.limits},
                "swap": "2G",
                "storage": STORAGE,
                "plan": plan,
                # Steady rounds are compared: a start in a fresh process is made once.
                **({"starts": ["110%"]} if plan == "walk" else {}),
            },
        }


def steady_rounds(trials: pd.DataFrame, phases: pd.DataFrame) -> dict[Key, tuple[float, float]]:
    """Workload and limit → the median of steady rounds, seconds, and the limit in MiB.

    Both are medians over trials again; without a limit the second one is infinite.
    """
    found: dict[Key, list[tuple[float, float]]] = {}
    rounds = phases[phases["phase"] == "round"]
    for trial in trials[trials["outcome"] == "ok"].to_dict("records"):
        own = rounds[rounds["trial"] == trial["trial"]].sort_values("round")["wall_s"].tolist()
        if len(own) < 2:
            continue
        seconds = statistics.median(own[place] for place in steadiness(own).rounds)
        key = tuple(trial[name] for name in (*_WORKLOAD, "limit_label"))
        limit = trial["limit_bytes"]
        found.setdefault(key, []).append((seconds, float("inf") if pd.isna(limit) else limit / MIB))
    return {
        key: (statistics.median(s for s, _ in pairs), statistics.median(m for _, m in pairs))
        for key, pairs in found.items()
    }


@dataclass(frozen=True)
class Ways:
    """Steady rounds by workload and limit: of fresh trials, and of walks down and up."""

    fresh: dict[Key, tuple[float, float]]
    down: dict[Key, tuple[float, float]]
    up: dict[Key, tuple[float, float]]

    @classmethod
    def of(cls, fresh: Results, walked: Results) -> Ways:
        """From both sweeps; of the walks' without the fresh trials that are beside them."""
        own = walked.trials[walked.trials["walk_step"].notna()]
        return cls(
            steady_rounds(fresh.trials, fresh.phases),
            steady_rounds(own, walked.phases),
            steady_rounds(walked.upward.trials, walked.upward.phases),
        )

    def with_others(self, other: Ways) -> Ways:
        """Those of other workloads, too."""
        return Ways(self.fresh | other.fresh, self.down | other.down, self.up | other.up)

    @property
    def workloads(self) -> list[Key]:
        """All that were measured, in order."""
        return sorted({key[:3] for key in self.down})

    def rows(self) -> list[dict[str, Any]]:
        """One a workload and limit that both ran."""
        found = []
        for key in sorted(set(self.fresh) & set(self.down)):
            (fresh_s, fresh_mib), (walked_s, walked_mib) = self.fresh[key], self.down[key]
            free = self.fresh.get((*key[:3], "max"))
            way = self.up.get(key, self.down[key])[0] / walked_s
            found.append(
                {
                    **dict(zip((*_WORKLOAD, "limit"), key, strict=True)),
                    "fresh_s": fresh_s,
                    "walked_s": walked_s,
                    "difference": walked_s / fresh_s - 1,
                    "limit_difference": walked_mib / fresh_mib - 1 if key[3] != "max" else 0.0,
                    "slowdown": fresh_s / free[0] if free else None,
                    "hysteresis": max(way, 1 / way) > HYSTERESIS,
                }
            )
        return found


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How many points, and how far both differ outside the hysteresis."""
    outside = [row for row in rows if not row["hysteresis"]]
    flat = [row for row in rows if row["slowdown"] and row["slowdown"] < SLOWED]
    slowed = [row for row in outside if row["slowdown"] and row["slowdown"] >= SLOWED]
    return {
        "points": len(rows),
        "outside_hysteresis": len(outside),
        "median_difference": statistics.median(abs(r["difference"]) for r in outside or rows),
        "slowed": len(slowed),
        "largest_of_slowed": max((abs(row["difference"]) for row in slowed), default=None),
        "fresh_scatter": scatter(flat, "fresh_s"),
        "walked_scatter": scatter(flat, "walked_s"),
    }


def scatter(rows: Sequence[dict[str, Any]], name: str) -> float | None:
    """How far one way's rounds lie from their own median, over limits that don't slow: the median.

    It is the baseline of how both ways differ: so much differs what should be equal.
    """
    groups: dict[Key, list[float]] = {}
    for row in rows:
        groups.setdefault(_key(row), []).append(row[name])
    far = [abs(one / statistics.median(own) - 1) for own in groups.values() for one in own]
    return statistics.median(far) if far else None


def draw(ways: Ways, folder: Path) -> None:
    """Steady rounds by limit, a panel a workload: fresh trials, the way down and the way up."""
    looks = {"fresh": ("s", "none"), "down": ("o", None), "up": ("^", "none")}
    colours = dict(zip(looks, style.limit_colours(3), strict=True))
    with style.figure_style():
        lines = -(-len(ways.workloads) // _COLUMNS)
        words = f"steady rounds, storage {STORAGE}"
        figure = style.new_figure("Walks and fresh trials", words, "edgebench", 2.4 * lines + 1)
        grid = figure.subplots(lines, min(_COLUMNS, len(ways.workloads)), squeeze=False)
        for axes in list(grid.flat)[len(ways.workloads) :]:
            axes.set_axis_off()
        for axes, workload in zip(grid.flat, ways.workloads, strict=False):
            axes.set_title(" · ".join(workload), fontsize=8.5)
            axes.set_yscale("log")
            axes.set_xlabel("limit (MiB)")
            for name, (mark, face) in looks.items():
                of_way = {k: v for k, v in getattr(ways, name).items() if k[:3] == workload}
                pairs = sorted((mib, s) for s, mib in of_way.values() if mib != float("inf"))
                drawn = {"color": colours[name], "mfc": face or colours[name], "ms": 4, "lw": 1}
                # Also a way without a limit, for the legend.
                limits, seconds = zip(*pairs, strict=True) if pairs else ((), ())
                axes.plot(limits, seconds, marker=mark, label=name, **drawn)
            scales.seconds_axis(axes, "")
        grid[0, 0].set_ylabel("round")
        style.legend_beside(grid[0, -1])
        print(*style.save_figure(figure, folder, "walk_truth"))


def asked() -> tuple[Asked, bool, Path, Path | None]:
    """What the command line says: what to compare, whether quickly, where sweeps go and are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one network, two limits")
    for name in ("networks", "schedules", "loaders"):
        parser.add_argument(f"--{name}", type=lambda text: tuple(text.split(",")))
    for name in ("limits", "repeats"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--with", type=Path)
    options = vars(parser.parse_args())
    quick, results, others = (options.pop(name) for name in ("quick", "results", "with"))
    small = {"networks": NETWORKS[-1:], "schedules": SCHEDULES[:1], "loaders": LOADERS[:1]}
    usual = {**small, "limits": 2, "repeats": 1, "rounds": 5} if quick else {}
    given = {name: value for name, value in options.items() if value is not None}
    return Asked(**{**usual, **given}), quick, results, others


def kept_in(results: Path) -> Ways:
    """The newest sweeps of both plans in a results folder."""
    return Ways.of(*(load(max(results.glob(f"*/*-truth-{plan}-*"))) for plan in ("grid", "walk")))


def main() -> None:
    """Run both plans, tell and write how they differ, and draw the hysteresis."""
    wanted, quick, results, others = asked()
    folders = []
    for plan in ("grid", "walk"):
        with shown_progress(verbose=False) as progress:
            made = run_sweep(scenario_of(wanted.tables(plan)), SweepOptions(results), progress)
        folders.append(made.folder)
        print(f"{plan}: {made.wall_s:.0f} s, {made.folder}")
    ways = Ways.of(*(load(folder) for folder in folders))
    if others:
        ways = ways.with_others(kept_in(others))
    rows = ways.rows()
    for row in rows:
        words = "inside hysteresis" if row["hysteresis"] else ""
        print(
            f"{row['network']:>16} {row['schedule']:>7} {row['loader']:>5} {row['limit']:>6} "
            f"{row['fresh_s']:8.3f} s {row['walked_s']:8.3f} s {row['difference']:+7.1%} {words}"
        )
    told = {" ".join(of): summary([r for r in rows if _key(r) == of]) for of in ways.workloads}
    for network in sorted({of[0] for of in ways.workloads}):
        told[network] = summary([row for row in rows if row["network"] == network])
    told["all"] = summary(rows)
    header = ("workload", *(name.replace("_", " ") for name in told["all"]))
    lines = [[name, *map(_shown, one.values())] for name, one in told.items()]
    for line in (header, *lines):
        print("  ".join(map(str, line)))
    if not quick:
        says = f"Walks against fresh trials, {wanted.repeats} of each, storage {STORAGE}."
        report.write("walk_truth", says, header, lines, {"told": told, "rows": rows})
    draw(ways, folders[-1] if quick else FIGURE)


def _key(row: dict[str, Any]) -> Key:
    return tuple(row[name] for name in _WORKLOAD)


def _shown(value: float | None) -> str:
    if value is None:
        return "none"
    return str(value) if isinstance(value, int) else f"{value:.1%}"


if __name__ == "__main__":
    main()
