"""``edgebench export``: a sweep's frames as files, or its points as Markdown tables."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.cli.options import results_argument
from edgebench.cli.output import print_next, print_warnings, typed_path
from edgebench.errors import ResultsError, UsageError
from edgebench.extras import need
from edgebench.results.columns import FRACTIONS, trials_csv
from edgebench.results.workload_key import brief_names
from edgebench.text import csv_cell

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.results.results import Results

_TABLES = ("samples", "stat")
_FRAMES = ("trials", "phases", "layers", "misses", "memory", "networks", *_TABLES)
_FORMATS = ("csv", "parquet", "json")
_SUFFIXES = {**{one: one for one in _FORMATS}, "md": "markdown"}


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
    from edgebench.results.results import load

    suffix = output.suffix[1:].lower() if output else ""
    kind = kind or _SUFFIXES.get(suffix, "csv")
    if kind == "parquet" and output is None:
        raise UsageError("Parquet can't be printed", remedy="name a file: -o trials.parquet")
    if kind == "markdown" and frame is not None:
        raise UsageError("markdown has no frames", remedy="leave out --frame or --format")
    if kind == "markdown":
        loaded, text = _points(results)
        _deliver(loaded.warnings, text.encode(), "the sweep's points", "edgebench show", output)
        return
    loaded = load(results)
    frame = frame or _FRAMES[0]
    follows = f"edgebench plot {typed_path(results)}"
    if (frame, kind) == (_FRAMES[0], "csv"):
        _check_trials(loaded, only)
        text, rows = trials_csv(loaded.sweeps, only)
        _deliver(loaded.warnings, text.encode(), f"{rows} rows of {frame}", follows, output)
        return
    need("pandas", *(["pyarrow"] if kind == "parquet" else []))
    table = whole_numbers(_frame(loaded, frame, only))
    data, what = _encoded(table, kind), f"{len(table)} rows of {frame}"
    _deliver(loaded.warnings, data, what, follows, output)


def _deliver(
    warnings: list[str], data: bytes, what: str, follows: str, output: Path | None
) -> None:
    """Print it, or write it to the file and say so."""
    from edgebench.results.derived import write_file

    print_warnings(warnings, "edgebench show --verbose")
    if output is None:
        click.echo(data, nl=False)
        return
    write_file(output, data, "name a file in a writable folder: -o FILE")
    click.echo(f"Wrote {what} to {output}.", err=True)
    print_next(follows)


def _points(results: Path) -> tuple[Results, str]:
    """Return the newest sweep, and its tables of limits in Markdown."""
    from edgebench.answers.limits import limits_table, workload_answer
    from edgebench.report.builder import table_lines
    from edgebench.results.facts import sweep_facts
    from edgebench.results.results import latest, load

    loaded = load(latest(results))
    found = sweep_facts(loaded.sweeps[0]).workloads
    names = brief_names(one.name for one in found)
    tables = [
        replace(limits_table(workload_answer(one), every=True, peaks=True), title=names[one.name])
        for one in found
    ]
    lines = [line for table in tables for line in table_lines(table, "##")]
    return loaded, "\n".join(lines)


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
