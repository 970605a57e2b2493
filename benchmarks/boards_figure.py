"""One network on four boards' presets, in one figure: what is emulated, and what is not.

``python benchmarks/boards_figure.py [NETWORK | --draw]``, as root. One walk a board, on its
storage and cores, weights mapped, with a swap file, since not every machine has zram; writes
``results/boards_figure.json`` and the figure ``docs/figures/boards.png``. Cut short, the next start
makes what is missing; ``--draw`` draws the figure anew from the kept file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import report

from edgebench.boards.board import board_title, find_board
from edgebench.cli.progress import shown_progress
from edgebench.report.figures import scales, style
from edgebench.results.results import load
from edgebench.results.rounds import STEADY
from edgebench.run.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import scenario_of
from edgebench.units import MIB

BOARDS = ("raspberry-pi-zero-2w", "raspberry-pi-4-4g", "raspberry-pi-5-4g", "rock-5b-4g")
LIMITS = ("150M", "120M", "100M", "80M")
WORKLOAD = {
    "kind": "inference",
    "schedule": "bulk",
    "loader": "mmap",
    "warm": 1,
    "page_cache": "cold",
}
_ROOT = Path("results-of-boards-figure")
EMULATED = "Emulated on one machine: the memory limit, the speed at which storage is read, cores."
NOT_EMULATED = (
    "Not emulated: the boards' CPUs. Flat parts are this machine's seconds, high parts the "
    "storage's."
)
#: Board and limit of what other programs disturbed: known to be too high, so it is not drawn.
DISTURBED = {("raspberry-pi-zero-2w", None), ("raspberry-pi-zero-2w", 150.0)}
FIGURES = Path(__file__).parents[1] / "docs" / "figures"


def main(network: str) -> None:
    """Walk on each board, keep the medians of steady executions, draw them."""
    tables = {
        "schema": 1,
        "name": "boards",
        "repeats": 1,
        "timeout": "9m",
        "workload": {"network": network, **WORKLOAD},
        "limits": {
            "board": list(BOARDS),
            "memory": ["max", *LIMITS],
            "swap": "2G",
            "plan": "walk",
            "target": 0.3,
            "starts": [LIMITS[0]],
        },
    }
    if not any(_ROOT.glob("*/*/complete.json")):
        with shown_progress() as progress:
            run_sweep(scenario_of(tables), SweepOptions(_ROOT), progress)
    rows = steady_executions(load(_ROOT).phases)
    report.write(
        "boards_figure",
        f"{network}, weights mapped, on four boards' presets. {EMULATED} {NOT_EMULATED}",
        ("board", "storage", "reads MB/s", "limit MiB", "seconds", "slowdown", "rounds"),
        [[*row.values()] for row in rows],
        {"network": network, "limits_mib": [float(limit[:-1]) for limit in LIMITS], "rows": rows},
    )
    draw(rows, network)


def steady_executions(phases: pd.DataFrame) -> list[dict[str, Any]]:
    """The median of each board and limit on the way down, against the same board's unlimited."""
    steady = phases[(phases["phase"] == "execute") & (phases["stage"] == STEADY)]
    rows = []
    for board in BOARDS:
        own = steady[steady["board"] == board]
        unlimited = own[own["limit_bytes"].isna()]["wall_s"].median()
        preset = find_board(board).storage[0]
        reads = find_board(board).speed.read_bps
        for size, of_limit in own.groupby("limit_bytes", dropna=False)["wall_s"]:
            rows.append(
                {
                    "board": board,
                    "storage": preset,
                    "read_mb_per_s": None if reads is None else reads / 1e6,
                    "limit_mib": None if pd.isna(size) else round(size / MIB, 1),
                    "seconds": of_limit.median(),
                    "slowdown": of_limit.median() / unlimited,
                    "rounds": len(of_limit),
                }
            )
    return rows


def draw(rows: list[dict[str, Any]], network: str) -> None:
    """Seconds against limit, a line for each board, the unlimited ones dotted, the words below."""
    with style.figure_style():
        figure = style.new_figure(
            f"One execution of {network} on four boards, emulated",
            EMULATED,
            NOT_EMULATED,
            4.2,
        )
        axes = figure.subplots()
        for number, board in enumerate(BOARDS):
            colour, marker = style.series_style(number)
            own = [
                row
                for row in rows
                if row["board"] == board and (board, row["limit_mib"]) not in DISTURBED
            ]
            limited = [row for row in own if row["limit_mib"] is not None]
            label = f"{board_title(board)}\n{own[0]['storage']}, {own[0]['read_mb_per_s']:g} MB/s"
            axes.plot(
                [row["limit_mib"] for row in limited],
                [row["seconds"] for row in limited],
                marker=marker,
                color=colour,
                ms=4,
                label=label,
            )
            for row in own:
                if row["limit_mib"] is None:
                    axes.axhline(row["seconds"], color=colour, lw=0.8, ls=":")
        axes.set_xlabel("limit (MiB)")
        scales.seconds_axis(axes, "")
        axes.set_ylabel("a steady execution; dotted: unlimited")
        style.legend_beside(axes)
        print(*style.save_figure(figure, FIGURES, "boards"))


if __name__ == "__main__":
    if "--draw" in sys.argv:
        kept = json.loads((report.RESULTS / "boards_figure.json").read_text())["data"]
        draw(kept["rows"], kept["network"])
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else "resnet50")
