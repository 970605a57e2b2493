"""``edgebench export``: a sweep's frames as CSV, Parquet or JSON, or its trials as a trace."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.errors import MachineError, ResultsError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.results.results import Results

_FRAMES = ("trials", "phases", "layers", "memory", "networks", "samples", "stat")
_FORMATS = ("csv", "parquet", "json")
#: No frame, but all of a trial on one time line.
_TRACE = "trace"
#: Nor is this: times in the format of pytest-benchmark.
_BENCHMARK = "pytest-benchmark"
_VIEWER = "https://ui.perfetto.dev"
_PARQUET_REMEDY = "python3 -m pip install 'edgebench[parquet]'"


@click.command(short_help="Write a sweep's frames as CSV, Parquet or JSON.")
@click.argument("results", type=click.Path(path_type=Path), default=Path("results"))
@click.option(
    "--frame",
    type=click.Choice(_FRAMES),
    help="Which frame [default: trials]; samples and stat are the sampler's tables.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice([*_FORMATS, _TRACE, _BENCHMARK]),
    help="Format [default: the output's suffix, else csv]; trace and pytest-benchmark are none.",
)
@click.option("--trial", "only", multiple=True, help="Only this trial; may be given repeatedly.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write [default: stdout].",
)
def export(
    results: Path, frame: str | None, kind: str | None, only: tuple[str, ...], output: Path | None
) -> None:
    """Export one frame of the sweeps in RESULTS; docs/results.md explains each column.

    A value that is missing is empty in CSV and null in JSON and Parquet. With --format trace it is
    the trials' layers, threads and memory on one time line, for a trace viewer.
    """
    from edgebench.results.results import load

    kind = kind or _kind_of(output)
    if kind == "parquet" and output is None:
        raise UsageError("Parquet is no text", remedy="name a file: -o trials.parquet")
    if kind in (_TRACE, _BENCHMARK) and frame is not None:
        raise UsageError(f"{kind} holds no frame", remedy=f"leave out --frame, or --format {kind}")
    loaded = load(results)
    if kind == _TRACE:
        data, what, follows = _trace(loaded, only)
    elif kind == _BENCHMARK:
        data, what, follows = _benchmark(loaded, output)
    else:
        frame = frame or _FRAMES[0]
        table = whole_numbers(_frame(loaded, frame, only))
        data, what = _encoded(table, kind), f"{len(table)} rows of {frame}"
        follows = f"edgebench plot {results}"
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    if output is None:
        click.echo(data, nl=False)
        return
    _write(output, data)
    click.echo(f"wrote {what} to {output}", err=True)
    click.echo(f"next: {follows}", err=True)


def whole_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with bytes, counts and other whole numbers as integers that may be missing."""
    floats = frame.select_dtypes("float64")
    seconds = [name for name in floats if str(name).endswith(("_s", "_share", "_quota", "_c"))]
    counts = floats.drop(columns=seconds)
    whole = [name for name in counts if (counts[name].dropna() % 1 == 0).all()]
    return frame.astype(dict.fromkeys(whole, "Int64"))


def _kind_of(output: Path | None) -> str:
    suffix = output.suffix[1:].lower() if output else ""
    return suffix if suffix in _FORMATS else "csv"


def _trace(loaded: Results, only: tuple[str, ...]) -> tuple[bytes, str, str]:
    """The trace, what it holds, and what to do with it."""
    from edgebench.results.trace_export import chrome_trace

    _check(loaded, only)
    trace, left_out = chrome_trace(loaded, only)
    for words in left_out:
        click.echo(f"warning: {words}", err=True)
    events = trace["traceEvents"]
    trials = len({event["pid"] for event in events})
    data = (json.dumps(trace) + "\n").encode()
    return data, f"{len(events)} events of {trials} trials", f"open it in {_VIEWER}"


def _benchmark(loaded: Results, output: Path | None) -> tuple[bytes, str, str]:
    """A convolution sweep's times, what they are, and what to do with them."""
    from edgebench.studies.pytest_benchmark import benchmark_json

    told = benchmark_json(loaded)
    data = (json.dumps(told, indent=1) + "\n").encode()
    follows = f"pytest-benchmark compare {output} OTHER"
    return data, f"{len(told['benchmarks'])} benchmarks", follows


def _check(loaded: Results, only: tuple[str, ...]) -> None:
    unknown = sorted(set(only) - set(loaded.trials["trial"]))
    if unknown:
        raise ResultsError(
            f"no trial {', '.join(unknown)} here", remedy="edgebench export --frame trials"
        )


def _frame(loaded: Results, name: str, only: tuple[str, ...]) -> pd.DataFrame:
    _check(loaded, only)
    if name in ("samples", "stat"):
        return _sampled(loaded, name, only)
    frame: pd.DataFrame = getattr(loaded, name)
    if only and "trial" not in frame:
        raise UsageError(f"the frame {name} is of no trial", remedy="leave out --trial")
    return frame[frame["trial"].isin(only)] if only else frame


def _sampled(loaded: Results, name: str, only: tuple[str, ...]) -> pd.DataFrame:
    import pandas as pd

    read = loaded.samples if name == "samples" else loaded.stat
    tables = []
    for sweep, trial in loaded.trials[["sweep", "trial"]].itertuples(index=False):
        if only and trial not in only:
            continue
        try:
            table = read(trial, sweep)
        except ResultsError as error:
            click.echo(f"warning: left out: {error.what} ({error.where})", err=True)
            continue
        table.insert(0, "sweep", sweep)
        table.insert(1, "trial", trial)
        tables.append(table)
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _encoded(frame: pd.DataFrame, kind: str) -> bytes:
    if kind == "parquet":
        return _parquet(frame)
    return _json(frame) if kind == "json" else _csv(frame)


def _csv(frame: pd.DataFrame) -> bytes:
    return frame.to_csv(index=False, lineterminator="\n").encode()


def _json(frame: pd.DataFrame) -> bytes:
    # Not pandas' own writer: it rounds to 15 digits.
    known = frame.astype("object").where(frame.notna(), None)
    return (json.dumps(known.to_dict("records"), default=str) + "\n").encode()


def _parquet(frame: pd.DataFrame) -> bytes:
    target = io.BytesIO()
    try:
        frame.to_parquet(target, index=False)
    except ImportError:
        raise MachineError("Parquet needs pyarrow", remedy=_PARQUET_REMEDY) from None
    return target.getvalue()


def _write(output: Path, data: bytes) -> None:
    try:
        output.write_bytes(data)
    except OSError as error:
        raise ResultsError(
            f"can't write the export: {error.strerror}",
            where=str(output),
            remedy="name a file in a folder that exists and that you may write to: -o FILE",
        ) from None
