"""What a sweep holds: ``show`` prints its answer, also while it runs; ``export`` its data."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.answers.limits import (
    WorkloadAnswer,
    answer_headline,
    blame_words,
    limits_table,
    overview_table,
    workload_answer,
)
from edgebench.answers.trials import board_line, sweep_warnings, warning_lines, warnings_of
from edgebench.cli.options import json_option, read_newest, results_argument, verbose_option
from edgebench.cli.output import (
    print_headline,
    print_json,
    print_lines,
    print_next,
    print_table,
    print_warnings,
    typed_path,
)
from edgebench.errors import EdgebenchError, ResultsError, UsageError
from edgebench.installation import need
from edgebench.results.columns import FRACTIONS, trials_csv
from edgebench.results.derived import write_file
from edgebench.results.facts import WorkloadFacts, sweep_facts
from edgebench.results.workload_key import brief_names
from edgebench.text import csv_cell

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.analysis.studies.tables import StudyTable
    from edgebench.results.results import Results, Sweep

#: More workloads than this have one row each, unless all is asked for.
_MOST_WORKLOADS = 6
#: The layers of more workloads than this take long to read.
_MOST_BLAMED = 3
#: Rows of a table that are shown without --verbose.
_MOST_ROWS = 12
_TABLES = ("samples", "stat")
_FRAMES = ("trials", "phases", "layers", "misses", "memory", "networks", *_TABLES)
_FORMATS = ("csv", "parquet", "json")
_SUFFIXES = {**{one: one for one in _FORMATS}, "md": "markdown"}


@click.command()
@results_argument
@click.option("--study", is_flag=True, help="Show the tables of a study's sweep instead.")
@verbose_option("all limits, each workload's table, peaks and warnings; with --study every row")
@json_option("every point, or the study's tables")
def show(results: Path, study: bool, verbose: bool, as_json: bool) -> None:
    """Show the newest sweep in RESULTS: a sweep's folder, or a folder of several.

    It also works on a sweep that is running, was interrupted or is damaged.
    """
    loaded = read_newest(results)
    if study:
        print_studies(loaded, verbose, as_json)
        return
    sweep = loaded.sweeps[0]
    if as_json:
        print_json(
            {
                "sweep": sweep.name,
                "path": sweep.path,
                "device": sweep.device,
                "state": _state(sweep),
                "planned": sweep.planned,
                "recorded": len(sweep.records),
                "points": [asdict(point) for point in sweep_facts(sweep).points],
                "warnings": loaded.warnings,
            }
        )
        return
    planned = "?" if sweep.planned is None else sweep.planned
    outcomes = Counter(map(str, sweep.columns.words("outcome", range(len(sweep.records)))))
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    state = f"{_state(sweep)}, {len(sweep.records)} of {planned} trials"
    print_sweep(loaded, verbose=verbose)
    print_lines([f"{sweep.name} on {sweep.device}: {state}{counts and f' ({counts})'}"])
    if _state(sweep) == "unfinished":
        print_next("edgebench run SCENARIO  (the same scenario: it resumes the sweep)")
    else:
        print_next(f"edgebench report {typed_path(sweep.path)}")


def _state(sweep: Sweep) -> str:
    if sweep.running:
        return "running"
    return "complete" if sweep.complete is not None else "unfinished"


def print_sweep(loaded: Results, *, verbose: bool = False, took: str = "") -> None:
    """Print a sweep's answer. ``took``: stands at the end of the headline of a single workload."""
    # The layers' events, which are read below, may be kept elsewhere: that is no doubt.
    sweep, warnings = loaded.sweeps[0], list(loaded.warnings)
    workloads = sweep_facts(sweep).workloads
    names = brief_names(workload.name for workload in workloads)
    answers = [workload_answer(workload, names[workload.name]) for workload in workloads]
    alone = all(len(answer.rows) < 2 for answer in answers)
    if not verbose and (len(workloads) > _MOST_WORKLOADS or alone):
        print_headline(f"{len(workloads)} workload{'s' * (len(workloads) != 1)}   {took}".rstrip())
        print_table(overview_table(answers))
    else:
        blamed = _blamed(loaded, workloads) if len(workloads) <= _MOST_BLAMED or verbose else {}
        for n, (workload, answer) in enumerate(zip(workloads, answers, strict=True)):
            if n:
                click.echo()
            more, blame = took if len(workloads) == 1 else "", blamed.get(workload.name, "")
            print_answer(answer, more, blame, verbose=verbose)
    doubts = [*warnings, *warning_lines(sweep_warnings(sweep))]
    print_doubts(workloads, names if len(workloads) > 1 else {}, doubts, verbose=verbose)


def print_answer(answer: WorkloadAnswer, took: str, blame: str = "", *, verbose: bool) -> None:
    """Print a workload's headline and table; below it the knee, the layers and the board."""
    print_headline(answer_headline(answer, took))
    print_table(limits_table(answer, every=verbose, peaks=verbose))
    knee = f"knee {answer.knee}" if answer.knee else ""
    finished = [row.limit_bytes for row in answer.rows if row.limit_bytes and row.all_finished]
    needs = answer.needs_bytes[1] if answer.needs_bytes else None
    enough = min(filter(None, (needs, answer.give_bytes)), default=None)
    least = min(finished, default=None)
    board = board_line(answer.board, enough, least, answer.library_bytes)
    print_lines(filter(None, ["; ".join(filter(None, (knee, blame))), board]))


def print_doubts(
    workloads: Iterable[WorkloadFacts],
    names: Mapping[str, str],
    others: Iterable[str] = (),
    *,
    verbose: bool,
) -> None:
    """Print what puts workloads in doubt, under these names, and other warnings."""
    doubts = [
        doubt
        for workload in workloads
        for doubt in warnings_of(workload, names.get(workload.name, ""))
    ]
    print_warnings([*warning_lines(doubts), *others], None if verbose else "--verbose")


def _blamed(loaded: Results, workloads: tuple[WorkloadFacts, ...]) -> Mapping[str, str]:
    """Which layers a limit slows most, by workload; none where no layer was timed."""
    if not any(workload.slowed for workload in workloads):
        return {}
    from edgebench.analysis.layer_costs import layer_cost_tables

    try:
        tables, _ = layer_cost_tables(loaded)
    except (EdgebenchError, ModuleNotFoundError):
        return {}
    by_workload = {table.workload: table for table in tables}
    blamed: dict[str, str] = {}
    for workload in workloads:
        table = by_workload.get(workload.key.id)
        if table and (cost := table.slowed(workload)):
            blamed[workload.name] = blame_words(table, cost)
    return blamed


def print_studies(loaded: Results, verbose: bool, as_json: bool) -> None:
    """Print every table for which the sweep has data: a convolution's cost, a search's effects.

    Raises:
        ResultsError: it has data for none.
    """
    tables = study_tables(loaded)
    if as_json:
        print_warnings(loaded.warnings)
        print_json({"path": loaded.path, "tables": [table.to_json() for table in tables]})
        return
    for table in tables:
        print_headline(table.title)
        rows = table.rows if verbose else table.rows[:_MOST_ROWS]
        print_table(table.as_table(rows))
        if left := len(table.rows) - len(rows):
            print_lines([f"  {left} more rows: --verbose"])
    print_warnings(loaded.warnings, None if verbose else "--verbose")
    print_next(f"edgebench plot {typed_path(loaded.path)}")


def study_tables(loaded: Results) -> list[StudyTable]:
    """Every table for which the sweep has data.

    Raises:
        ResultsError: it has data for none.
    """
    from edgebench.analysis.studies import STUDIES

    every: list[StudyTable] = []
    for tables in STUDIES.values():
        with suppress(ResultsError):
            every += tables(loaded)
    if not every:
        raise ResultsError(
            f"this sweep has no data of a study: {', '.join(STUDIES)}",
            where=str(loaded.path),
            remedy="edgebench run lowpower/conv",
        )
    return every


@click.command()
@results_argument
@click.option(
    "--frame",
    type=click.Choice(_FRAMES),
    help="Which frame; misses: what rounds read again; samples, stat: the sampler's tables "
    "[default: trials].",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice([*_FORMATS, "markdown"]),
    help="markdown writes points, not a frame [default: by the output's suffix, else csv].",
)
@click.option(
    "--trial", "only", metavar="ID", multiple=True, help="Only this trial; may be repeated."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write [default: stdout].",
)
def export(
    results: Path,
    frame: str | None,
    kind: str | None,
    only: tuple[str, ...],
    output: Path | None,
) -> None:
    """Export one frame of the sweeps in RESULTS; docs/reference/results.md explains each column.

    A missing value is empty in CSV and null in JSON and Parquet. markdown has the tables of limits
    of the newest sweep, for a README.
    """
    suffix = output.suffix[1:].lower() if output else ""
    kind = kind or _SUFFIXES.get(suffix, "csv")
    if kind == "parquet" and output is None:
        raise UsageError("Parquet can't be printed", remedy="name a file: -o trials.parquet")
    if kind == "markdown" and frame is not None:
        raise UsageError("markdown has no frames", remedy="leave out --frame or --format")
    from edgebench.results.results import load

    loaded = read_newest(results) if kind == "markdown" else load(results)
    frame = frame or _FRAMES[0]
    follows = f"edgebench plot {typed_path(results)}"
    if kind == "markdown":
        from edgebench.report.builder import table_lines

        workloads = sweep_facts(loaded.sweeps[0]).workloads
        names = brief_names(workload.name for workload in workloads)
        lines: list[str] = []
        for workload in workloads:
            table = limits_table(workload_answer(workload), every=True, peaks=True)
            lines += table_lines(replace(table, title=names[workload.name]), "##")
        data, what, follows = "\n".join(lines).encode(), "the sweep's points", "edgebench show"
    elif (frame, kind) == (_FRAMES[0], "csv"):
        _check_trials(loaded, only)
        text, rows = trials_csv(loaded.sweeps, only)
        data, what = text.encode(), f"{rows} rows of {frame}"
    else:
        need("pandas", *(["pyarrow"] if kind == "parquet" else []))
        rows_of = whole_numbers(_frame(loaded, frame, only))
        data, what = _encoded(rows_of, kind), f"{len(rows_of)} rows of {frame}"
    print_warnings(loaded.warnings, "edgebench show --verbose")
    if output is None:
        click.echo(data, nl=False)
        return
    write_file(output, data, "name a file in a writable folder: -o FILE")
    click.echo(f"Wrote {what} to {output}.", err=True)
    print_next(follows)


def whole_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with bytes and counts as integers, of which some may be missing."""
    floats = frame.select_dtypes("float64")
    seconds = [name for name in floats if str(name).endswith(FRACTIONS)]
    counts = floats.drop(columns=seconds)
    known = {name: counts[name].dropna() for name in counts}
    whole = [k for k, v in known.items() if (v % 1 == 0).all() and (v.abs() < 2.0**63).all()]
    return frame.astype(dict.fromkeys(whole, "Int64"))


def _check_trials(loaded: Results, only: tuple[str, ...]) -> None:
    known = {record.trial for sweep in loaded.sweeps for record in sweep.records}
    unknown = sorted(set(only) - known)
    if unknown:
        raise ResultsError(
            f"no trial {', '.join(unknown)}",
            where=str(loaded.path),
            remedy=f"edgebench export {typed_path(loaded.path)}",
        )


def _frame(loaded: Results, name: str, only: tuple[str, ...]) -> pd.DataFrame:
    _check_trials(loaded, only)
    if name in _TABLES:
        return _sampled(loaded, name, only)
    frame: pd.DataFrame = getattr(loaded, name)
    if only and "trial" not in frame:
        raise UsageError(f"{name} are not of single trials", remedy="leave out --trial")
    return frame[frame["trial"].isin(only)] if only else frame


def _sampled(loaded: Results, name: str, only: tuple[str, ...]) -> pd.DataFrame:
    import pandas as pd

    read = getattr(loaded, name)
    tables = []
    for sweep, trial in loaded.trials[["sweep", "trial"]].itertuples(index=False):
        if only and trial not in only:
            continue
        try:
            table = read(trial, sweep)
        except ResultsError as error:
            print_warnings([f"left out: {error.what} ({error.where})"])
            continue
        table.insert(0, "sweep", sweep)
        table.insert(1, "trial", trial)
        tables.append(table)
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _encoded(frame: pd.DataFrame, kind: str) -> bytes:
    if kind == "parquet":
        target = io.BytesIO()
        frame.to_parquet(target, index=False)
        return target.getvalue()
    if kind == "json":
        # Not pandas' own writer: it rounds to 15 digits.
        known = frame.astype("object").where(frame.notna(), None)
        return (json.dumps(known.to_dict("records"), default=str) + "\n").encode()
    texts = [name for name in frame if frame[name].dtype.kind == "O"]
    cells = frame.assign(**{str(name): frame[name].map(csv_cell) for name in texts})
    return cells.rename(columns=csv_cell).to_csv(index=False, lineterminator="\n").encode()
