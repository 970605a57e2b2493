"""One network on four boards' presets, in one figure: what is emulated, and what is not.

``python benchmarks/boards_figure.py [REPEATS [NETWORK]]``, as root. Each board's storage and cores
at the same limits, with a swap file, since not every machine has zram; writes
``results/boards_figure.json`` and the figure ``docs/figures/boards.png`` (and ``.svg``).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import report
from matplotlib import pyplot as plt

from edgebench.boards.board import board_title, find_board
from edgebench.cli.progress import shown_progress
from edgebench.report.figures.style import figure_style
from edgebench.results.results import load
from edgebench.run.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import scenario_of

BOARDS = ("raspberry-pi-zero-2w", "raspberry-pi-4-4g", "raspberry-pi-5-4g", "rock-5b-4g")
SHARES = ("90%", "80%", "70%")
SAID = (
    "Emulated on one machine: each board's storage (reading) and number of cores. Not emulated: "
    "the speed of its CPU, and writing to swap."
)
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "boards"


def main(repeats: int, network: str) -> None:
    """Run the sweep, keep its medians, draw them."""
    tables = {
        "schema": 1,
        "name": "boards",
        "repeats": repeats,
        "timeout": "45s",
        "workload": {"kind": "inference", "network": network, "rounds": 2, "warm": 1},
        "limits": {"board": list(BOARDS), "memory": ["max", *SHARES], "swap": "2G"},
    }
    with tempfile.TemporaryDirectory() as folder, shown_progress() as progress:
        made = run_sweep(scenario_of(tables), SweepOptions(Path(folder)), progress)
        rounds = second_rounds(load(made.folder).phases)
    rows = slowdowns(rounds)
    report.write(
        "boards_figure",
        f"{network} on four boards' presets. {SAID}",
        ("board", "storage", "limit", "MiB", "seconds", "slowdown"),
        [[*row.values()] for row in rows],
        {"network": network, "repeats": repeats, "said": SAID, "rows": rows},
    )
    draw(rows, network)


def second_rounds(phases: pd.DataFrame) -> pd.DataFrame:
    """Seconds of the second round of each trial that finished; the first starts the runtime."""
    second = phases[(phases["round"] == phases["round"].max()) & (phases["outcome"] == "ok")]
    keys = ["board", "limit_label", "trial"]
    return second.groupby(keys, as_index=False).agg(
        seconds=("wall_s", "sum"), limit_bytes=("limit_bytes", "first")
    )


def slowdowns(rounds: pd.DataFrame) -> list[dict[str, Any]]:
    """The median of each board and limit, against the same board's without a limit."""
    rows = []
    medians = rounds.groupby(["board", "limit_label"]).median(numeric_only=True)["seconds"]
    sizes = rounds.groupby(["board", "limit_label"])["limit_bytes"].first()
    for board in BOARDS:
        for label in ("max", *SHARES):
            if (board, label) not in medians:
                continue
            seconds, size = medians[board, label], sizes[board, label]
            rows.append(
                {
                    "board": board,
                    "storage": find_board(board).speed.label,
                    "limit": label,
                    "MiB": None if pd.isna(size) else round(size / 2**20, 1),
                    "seconds": float(seconds),
                    "slowdown": float(seconds / medians[board, "max"]),
                }
            )
    return rows


def draw(rows: list[dict[str, Any]], network: str) -> None:
    """Slowdown against limit, a line for each board, with the sentence below."""
    with figure_style():
        figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
        for board in BOARDS:
            own = [row for row in rows if row["board"] == board and row["MiB"] is not None]
            title = f"{board_title(board)}: {find_board(board).storage[0]}"
            axes.plot([r["MiB"] for r in own], [r["slowdown"] for r in own], "o-", label=title)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}×")
        axes.yaxis.set_minor_formatter("{x:g}×")
        axes.set_xlabel("limit, MiB")
        axes.set_ylabel("slowdown (second round)")
        axes.set_title(f"{network} on four boards, emulated")
        axes.legend()
        figure.supxlabel(SAID, fontsize="x-small", wrap=True)
        for suffix in ("png", "svg"):
            figure.savefig(FIGURE.with_suffix(f".{suffix}"))


if __name__ == "__main__":
    words = sys.argv[1:]
    main(int(words[0]) if words else 1, words[1] if len(words) > 1 else "mobilenet_v2")
