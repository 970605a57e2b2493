"""``edgebench report``: a sweep's self-contained report."""

from __future__ import annotations

from pathlib import Path

import click

from edgebench.cli.options import json_option, results_argument, verbose_option
from edgebench.cli.output import (
    print_json,
    print_next,
    print_warnings,
    shown_path,
    typed_path,
)
from edgebench.cli.show import print_sweep
from edgebench.extras import need


@click.command()
@results_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write [default: report.html in the sweep's folder].",
)
@click.option("--markdown", is_flag=True, help="Also write Markdown, with the figures beside it.")
@verbose_option("all limits and warnings")
@json_option("the files' paths")
def report(
    results: Path, output: Path | None, markdown: bool, verbose: bool, as_json: bool
) -> None:
    """Write a self-contained report of the newest sweep in RESULTS.

    RESULTS is a sweep's folder, or a folder of several. The report is one HTML file that opens
    offline and prints: tables, figures, the environment, and what is in doubt.
    """
    # Checked together, so that one command installs everything.
    need("jinja2", "pandas")
    from edgebench.report.builder import as_html, make_report, write_markdown
    from edgebench.results.derived import write_derived, write_file
    from edgebench.results.results import latest, load

    loaded = load(latest(results))
    made = make_report(loaded)
    target = output or loaded.path / "report.html"
    paths = [write_file(target, as_html(made).encode())]
    paths += write_markdown(target.with_suffix(".md"), made) if markdown else []
    if output is None:
        # The figure to open first.
        first = [one for one in made.pictures if one.stem.startswith("slowdown")][:1]
        figures = loaded.path / "figures"
        paths = [*(write_derived(figures, f"{one.stem}.svg", one.svg) for one in first), *paths]
    if as_json:
        print_warnings([*loaded.warnings, *made.left_out])
        print_json({"path": loaded.path, "files": paths})
        return
    print_sweep(loaded, verbose=verbose)
    files = [path for path in paths if path.suffix != ".png"]
    for path in files:
        click.echo(f"{'figure' if path.suffix == '.svg' else 'report'}: {shown_path(path)}")
    print_warnings(made.left_out, None if verbose else "--verbose")
    print_next(f"edgebench plot {typed_path(loaded.path)}")
