"""What ``layers`` shows of a network that its engine loads and executes as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from edgebench.analysis.layer_costs.table import LAYERS_SCHEMA
from edgebench.cli.output import (
    print_answer,
    print_json,
    print_next,
    print_table,
    shown_path,
    typed_path,
)
from edgebench.cli.run_output import run_answer
from edgebench.units import MIB, format_size
from edgebench.workloads.engines.registry import all_engines

if TYPE_CHECKING:
    from edgebench.results.results import Results

_PHASES = ("load", "first", "execute")
#: So many of the heaviest operators are listed.
_SHOWN = 5


def print_whole_network(results: Results, as_json: bool) -> bool:
    """Print the phases of a network that every trial ran as a whole; False if it is none."""
    schedules = results.trials["schedule"]
    if not len(schedules) or not (schedules == "whole").all():
        return False
    if as_json:
        whole = {"phases": _phases(results), "operators": _heaviest(results)}
        print_json({"schema": LAYERS_SCHEMA, "path": results.path, "tables": [], "whole": whole})
        return True
    _print_words(results)
    click.echo(f"\nresults: {shown_path(results.path)}")
    print_next(f"edgebench show {typed_path(results.path)}")
    return True


def _print_words(results: Results) -> None:
    """The answer, each phase's time by limit, and the operators with the most weights."""
    engine = all_engines()[str(results.trials["engine"].iloc[0])].title
    print_answer(run_answer(results.path))
    click.echo(
        f"\n{engine} loads and executes it as a whole, so its layers have no times of\n"
        "their own. Its phases in ms, medians of the trials (execute: one warm\n"
        "execution):\n"
    )
    rows = [[one["limit"], *_cells(one)] for one in _phases(results)]
    print_table(["limit", *_PHASES, "peak MiB"], rows)
    click.echo("\nOperators with the most weights:\n")
    heavy = [
        [one["name"][:40], one["type"][:20], format_size(one["bytes"])]
        for one in _heaviest(results)
    ]
    print_table(["operator", "type", "weights"], heavy, words=("operator", "type"))
    lost = results.trials[results.trials["outcome"] != "ok"]
    for label, outcomes in lost.groupby("limit_label", sort=False)["outcome"]:
        click.echo(
            f"at {label}: {', '.join(f'{n} {w}' for w, n in outcomes.value_counts().items())}"
        )


def _cells(one: dict[str, Any]) -> list[str]:
    times = (one.get(phase) for phase in _PHASES)
    shown = ("-" if seconds is None else f"{1000 * seconds:.3g}" for seconds in times)
    return [*shown, f"{one['peak_bytes'] / MIB:.0f}"]


def _phases(results: Results) -> list[dict[str, Any]]:
    from edgebench.results.frames import answering_rows

    done = answering_rows(results.phases[results.phases["outcome"] == "ok"])
    done = done.sort_values("memory_bytes", ascending=False, na_position="first", kind="stable")
    found = []
    for label, rows in done.groupby("limit_label", sort=False):
        rows = rows.assign(each_s=rows["wall_s"] / rows["passes"])
        medians = rows.groupby("phase")["each_s"].median()
        times = {phase: float(medians[phase]) for phase in _PHASES if phase in medians}
        found.append({"limit": str(label), **times, "peak_bytes": float(rows["peak_bytes"].max())})
    return found


def _heaviest(results: Results) -> list[dict[str, Any]]:
    (networks,) = (sweep.networks.get("networks") or {} for sweep in results.sweeps[:1])
    rows = [row for one in networks.values() for row in one["table"] if row["parameter_bytes"]]
    rows.sort(key=lambda row: -row["parameter_bytes"])
    return [
        {"name": row["name"], "type": row["type"], "bytes": row["parameter_bytes"]}
        for row in rows[:_SHOWN]
    ]
