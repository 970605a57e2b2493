"""``edgebench layers``: which layer is to blame, measured now or read from a sweep."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from edgebench.blame.choosing import SORTS
from edgebench.cli.options import results_option
from edgebench.errors import EdgebenchError, UsageError
from edgebench.records.records import SCHEMA

if TYPE_CHECKING:
    from edgebench.blame.memory import MemoryTable
    from edgebench.blame.table import BlameTable, PassCost
    from edgebench.results.results import Results
    from edgebench.sweep.sweep import SweepSummary

#: What only measuring has a use for.
_MEASURING = ("swap", "image", "threads", "rounds", "repeats", "results")
#: What chooses among the workloads of a sweep that is read.
_CHOOSING = ("schedule", "loader", "batch")


@click.command(short_help="Which layer is to blame? Measure a network layer by layer.")
@click.argument("network", required=False)
@click.option("--memory", multiple=True, help="Limit, as 200M or 75%; may be given repeatedly.")
@click.option(
    "--swap",
    default="none",
    show_default=True,
    help="Swap it may use: none, a size as 2G (a temporary swap file), or system.",
)
@click.option("--schedule", default="bulk", show_default=True, help="In which order layers run.")
@click.option("--loader", default="copy", show_default=True, help="How weights are read.")
@click.option("--batch", type=int, default=1, show_default=True, help="Images at once.")
@click.option("--image", type=int, help="Edge of the input in pixels [default: the network's].")
@click.option("--threads", type=int, help="torch's threads [default: torch's choice].")
@click.option("--rounds", type=int, default=1, show_default=True, help="Passes in one process.")
@click.option("--repeats", type=int, default=3, show_default=True, help="Trials at each limit.")
@results_option
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    help="Measure nothing: read this sweep, or the newest in this folder.",
)
@click.option(
    "--sort",
    type=click.Choice(SORTS),
    help="Which layers come first [default: blame; without a limit, time].",
)
@click.option("--all", "every", is_flag=True, help="Every layer, however many there are.")
@click.option("--figure/--no-figure", default=True, show_default=True, help="Draw it as well.")
@click.option("--json", "as_json", is_flag=True, help="Print the tables as JSON on stdout.")
@click.pass_context
def layers(
    context: click.Context,
    /,
    source: Path | None,
    sort: str | None,
    every: bool,
    figure: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Measure NETWORK layer by layer, unlimited and at each --memory, and tell who is to blame.

    The trials are a small sweep like any other, so show, plot and export work on it. With --from
    no trial is made: NETWORK, --memory, --schedule, --loader and --batch then choose what is shown.
    """
    from edgebench.blame.choosing import choose, shown_costs
    from edgebench.blame.making import blame_tables
    from edgebench.blame.memory import memory_tables
    from edgebench.cli.layer_tables import print_tables
    from edgebench.results.results import latest, load

    given = {n for n in asked if context.get_parameter_source(n) != ParameterSource.DEFAULT}
    summary = _measure(asked) if source is None else None
    loaded = load(summary.folder if summary else latest(_readable(source, given)))
    tables, warnings = blame_tables(loaded)
    if source is not None:
        tables = choose(tables, asked["network"], {n: asked[n] for n in _CHOOSING if n in given})
    costs = shown_costs(tables, asked["memory"])
    memory = memory_tables(loaded, tables)
    files = _draw(loaded, tables, costs, warnings) if figure else []
    for warning in (*loaded.warnings, *warnings):
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        _print_json(loaded, tables, memory, files)
    else:
        print_tables(tables, costs, memory, sort, every)
        _say_what_was_written(loaded, tables, files)
    if summary:
        from edgebench.cli.run import refuse_unexpected

        refuse_unexpected(summary)


def _measure(asked: dict[str, Any]) -> SweepSummary:
    if not asked["network"]:
        remedy = "edgebench layers alexnet, or edgebench layers --from results"
        raise UsageError("which network?", remedy=remedy)
    from edgebench.cli.progress import make_progress
    from edgebench.results.results import need_pandas
    from edgebench.scenario.layer_scenario import Asked, layer_scenario
    from edgebench.sweep.sweep import SweepOptions, run_sweep

    # Asked first: it would be a pity to find it lacking after minutes of measuring.
    need_pandas()
    results = asked["results"]
    scenario = layer_scenario(Asked(**{k: v for k, v in asked.items() if k != "results"}))
    progress = make_progress()
    try:
        return run_sweep(scenario, SweepOptions(results), progress)
    finally:
        progress.close()


def _readable(source: Path | None, given: set[str]) -> Path:
    useless = [f"--{name}" for name in _MEASURING if name in given]
    if useless:
        raise UsageError(
            f"with --from nothing is measured, so {' and '.join(useless)} can't be followed",
            remedy=f"leave {'it' if len(useless) == 1 else 'them'} out, or --from",
        )
    assert source is not None
    return source


def _draw(
    loaded: Results,
    tables: Sequence[BlameTable],
    costs: Sequence[Sequence[PassCost]],
    warnings: list[str],
) -> list[Path]:
    try:
        from edgebench.figures.gallery import draw_blame

        return draw_blame(loaded, tables, costs)
    except ModuleNotFoundError as error:
        remedy = "python3 -m pip install 'edgebench[plot]'"
        warnings.append(f"no figure: it needs {error.name}: {remedy}")
    except EdgebenchError as error:
        warnings.append(f"no figure: {error.what} ({error.where})")
    return []


def _print_json(
    loaded: Results,
    tables: Sequence[BlameTable],
    memory: Sequence[MemoryTable | None],
    files: Sequence[Path],
) -> None:
    from edgebench.blame.words import said

    rows = [
        {**table.to_json(), "memory": seen and seen.to_json(), "says": said(table)}
        for table, seen in zip(tables, memory, strict=True)
    ]
    about = {"schema": SCHEMA, "path": str(loaded.path), "files": [str(path) for path in files]}
    click.echo(json.dumps({**about, "tables": rows}))


def _say_what_was_written(
    loaded: Results, tables: Sequence[BlameTable], files: Sequence[Path]
) -> None:
    for path in files:
        if path.suffix == ".png":
            click.echo(f"figure: {path}")
    click.echo(f"results: {loaded.path}")
    trial = _telling_trial(loaded, tables[0])
    click.echo(f"next: edgebench export {loaded.path} --format trace --trial {trial} -o trace.json")


def _telling_trial(loaded: Results, table: BlameTable) -> str:
    """A trial at the tightest limit at which one finished."""
    trials = loaded.trials
    done = trials[(trials["outcome"] == "ok") & (trials["network"] == table.network)]
    tightest = done.sort_values("memory_bytes", na_position="last", kind="stable")
    return str(tightest["trial"].iloc[0])
