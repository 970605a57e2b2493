"""``edgebench report``: a sweep told in one file that stands alone."""

from __future__ import annotations

import json
from pathlib import Path

import click

from edgebench.records.records import SCHEMA

_NAME = "report.html"


@click.command(short_help="Tell a sweep in one file that stands alone.")
@click.argument("results", type=click.Path(path_type=Path), default=Path("results"))
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write [default: report.html in the sweep's folder].",
)
@click.option(
    "--markdown", is_flag=True, help="Write it as Markdown as well, its figures beside it."
)
@click.option("--pdf", is_flag=True, help="Write it as PDF as well.")
@click.option("--json", "as_json", is_flag=True, help="Print the files' paths as JSON on stdout.")
def report(results: Path, output: Path | None, markdown: bool, pdf: bool, as_json: bool) -> None:
    """Tell the newest sweep in RESULTS: a sweep's folder or one that holds several.

    One HTML file with everything in it: what the trials mean in sentences, tables, figures, the
    environment, what puts it in doubt. It opens offline and prints.
    """
    from edgebench.report.folding import folded
    from edgebench.report.html import as_html
    from edgebench.report.making import make_report
    from edgebench.report.writing import write_markdown, write_page
    from edgebench.results.results import latest, load

    loaded = load(latest(results))
    target = output or loaded.path / _NAME
    made = make_report(loaded, markdown)
    paths = [write_page(target, as_html(made).encode())]
    if pdf:
        from edgebench.report.pdf import as_pdf

        paths.append(write_page(target.with_suffix(".pdf"), as_pdf(made)))
    if markdown:
        paths += write_markdown(target.with_suffix(".md"), made)
    for warning in folded([*loaded.warnings, *made.left_out]):
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        files = [str(path) for path in paths]
        click.echo(json.dumps({"schema": SCHEMA, "path": str(loaded.path), "files": files}))
        return
    for path in paths:
        if path.suffix != ".png":
            click.echo(path)
    click.echo(
        f"wrote {len(paths)} files" if len(paths) > 1 else "wrote one file: open it anywhere"
    )
    click.echo(f"next: edgebench compare EARLIER {loaded.path}")
