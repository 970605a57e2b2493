"""``edgebench layers``: which layers are slow, measured now or read from a sweep."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgebench.analysis.layer_costs import (
    LAYERS_SCHEMA,
    SORTS,
    LayerCostTable,
    costs_at_limits,
    layer_cost_tables,
    matching_tables,
    sorted_layers,
)
from edgebench.answers.limits import (
    layer_warnings,
    layers_headline,
    layers_table,
    needs_words,
    workload_answer,
)
from edgebench.boards import emulation_words, storage_words
from edgebench.cli import options
from edgebench.cli.output import (
    figures_or_reason,
    print_figures,
    print_headline,
    print_json,
    print_lines,
    print_next,
    print_table,
    print_warnings,
    shown_path,
)
from edgebench.cli.run import refuse_unexpected, run_shown
from edgebench.errors import UsageError
from edgebench.installation import need
from edgebench.results.facts import sweep_facts
from edgebench.results.workload_key import brief_names
from edgebench.scenario.flags import PLACE_KEYS
from edgebench.text import AS_IS, format_limit

if TYPE_CHECKING:
    from edgebench.run.sweep.sweep import SweepSummary

#: Options that are used only to measure.
_MEASURING = (
    *(*PLACE_KEYS, "image", "input"),
    *("threads", "rounds", "repeats", "plan", "results", "fresh"),
)
#: Options that choose among the workloads of a sweep that is read.
_CHOOSING = ("schedule", "loader", "batch")


@click.command()
@click.argument("network", required=False, shell_complete=options.offer_networks)
@options.memory_option
@options.place_options
@options.flag("schedule")
@options.flag("loader")
@options.flag("batch")
@options.flag("image")
@options.flag("input")
@options.flag("threads")
@options.flag("rounds")
@options.flag("repeats", help="Trials at each limit, or walks [default: 3; with --plan walk 1].")
@options.flag("plan")
@options.results_option
@options.fresh_option
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    help="Measure nothing: read this sweep, or the newest in this folder.",
)
@click.option(
    "--sort",
    type=click.Choice(SORTS),
    help="Order of the layers [default: cost; without a limit, time].",
)
@click.option("--all", "every", is_flag=True, help="Show every layer.")
@click.option("--figure/--no-figure", default=True, help="Also draw a figure.")
@options.verbose_option("the tables of all limits and of no limit")
@options.json_option("the tables")
@click.pass_context
def layers(
    context: click.Context, /, source: Path | None, figure: bool, as_json: bool, **asked: Any
) -> None:
    """Measure NETWORK layer by layer, unlimited and at each --memory, and rank the slow layers.

    The trials are stored as a sweep, for show, plot and export. With --from nothing is measured:
    NETWORK, --memory, --schedule, --loader and --batch then choose what is shown.
    """

    def draw() -> list[Path]:
        from edgebench.report.figures.layers import draw_layer_costs

        return draw_layer_costs(loaded, tables, costs)

    sort, every, verbose = (asked.pop(name) for name in ("sort", "every", "verbose"))
    given = {n for n in asked if options.is_given(context, n)}
    if source is None:
        summary = _measure(options.with_board(context, asked))
        loaded = options.read_newest(summary.folder)
    else:
        options.refuse_given(context, _MEASURING, "measuring", "; leave it out, or --from")
        summary, loaded = None, options.read_newest(source)
    tables, warnings = layer_cost_tables(loaded)
    if source is not None:
        chosen = {name: asked[name] for name in _CHOOSING if name in given}
        tables = matching_tables(tables, asked["network"], chosen)
    costs = costs_at_limits(tables, asked["memory"])
    files, why_not = figures_or_reason(draw) if figure else ([], [])
    doubts = [doubt for table in tables for doubt in layer_warnings(table)]
    unsure = (*loaded.warnings, *warnings, *why_not, *doubts)
    if as_json:
        print_warnings(unsure)
        data = [table.to_json() for table in tables]
        print_json({"path": loaded.path, "files": files, "tables": data, "schema": LAYERS_SCHEMA})
    else:
        names = brief_names(map(_workload, tables))
        facts = (one for sweep in loaded.sweeps for one in sweep_facts(sweep).workloads)
        needs = {one.key.id: needs_words(workload_answer(one)) for one in facts}
        for table, shown in zip(tables, costs, strict=True):
            if table is not tables[0]:
                click.echo()
            rows = sorted_layers(table, sort, shown[-1].at.label if shown else None)
            for cost in [None, *table.costs] if verbose else [shown[-1] if shown else None]:
                need = needs.get(table.workload, "")
                print_headline(layers_headline(table, cost, names[_workload(table)], need))
                print_table(layers_table(table, rows, cost, every=every))
            print_lines(
                f"{format_limit(lost.label, lost.limit_bytes)}: {lost.reason or 'not finished'}"
                for lost in table.unfinished
            )
        print_figures(files)
        click.echo(f"results: {shown_path(loaded.path)}")
        print_warnings(unsure, None if verbose else "--verbose")
        if following := _next_command(tables[0], asked, given):
            print_next(following)
    if summary:
        refuse_unexpected(summary)


def _next_command(table: LayerCostTable, asked: dict[str, Any], given: set[str]) -> str | None:
    """With swap if nothing finished, with a limit if there was none."""
    if given <= {"network", "memory", "repeats", "results"}:
        again = f"edgebench layers {shlex.quote(asked['network'] or table.network)}"
        if table.unfinished and table.settings.get("swap_kind") == "none":
            return f"{again} --memory {table.unfinished[0].label} --swap 2G"
        if not table.costs and not table.unfinished:
            return f"{again} --memory 60% --swap 2G"
    return None


def _measure(asked: dict[str, Any]) -> SweepSummary:
    if not asked["network"]:
        remedy = "edgebench layers alexnet, or edgebench layers --from results"
        raise UsageError("no network is named", remedy=remedy)
    from edgebench.scenario.new_scenario import layer_scenario
    from edgebench.scenario.points import libraries, points

    settings = {name: v for name, v in asked.items() if name not in ("results", "fresh")}
    scenario = layer_scenario(**settings)
    # All at once and first, not after minutes of measuring.
    need("pandas", *(name for point in points(scenario) for name in libraries(point.settings)))
    return run_shown(scenario, asked["results"], fresh=asked["fresh"], again=True)


def _workload(table: LayerCostTable) -> str:
    words = [table.network, *(str(table.settings.get(key)) for key in ("schedule", "loader"))]
    words.append(f"batch {table.settings.get('batch', 1):g}")
    words.append(f"swap {table.settings.get('swap_kind')}")
    board, held = table.settings.get("board"), table.settings.get("storage", AS_IS)
    words += [emulation_words(board)] if board else []
    words += [] if held == AS_IS else [storage_words(held)]
    return " · ".join(words)
