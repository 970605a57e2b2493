"""``edgebench plot``: a sweep's figures."""

from __future__ import annotations

import json
from pathlib import Path

import click

from edgebench.records.records import SCHEMA


@click.command(short_help="Draw a sweep's figures.")
@click.argument("results", type=click.Path(path_type=Path), default=Path("results"))
@click.option("--trial", help="Draw only this trial's memory over time, as 0012.")
@click.option("--json", "as_json", is_flag=True, help="Print the files' paths as JSON on stdout.")
def plot(results: Path, trial: str | None, as_json: bool) -> None:
    """Draw the newest sweep in RESULTS: a sweep's folder or one that holds several.

    Figures go to figures/ in the sweep's folder, each as PNG and SVG. What can't be drawn is named
    with the reason.
    """
    from edgebench.figures.gallery import Gallery, draw_all, draw_trial
    from edgebench.results.results import latest, load

    loaded = load(latest(results))
    gallery = draw_all(loaded) if trial is None else Gallery(draw_trial(loaded, trial), [])
    for warning in (*loaded.warnings, *gallery.left_out):
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        files = [str(path) for path in gallery.paths]
        click.echo(json.dumps({"schema": SCHEMA, "path": str(loaded.path), "files": files}))
        return
    for path in gallery.paths:
        if path.suffix == ".png":
            click.echo(path)
    click.echo(f"wrote {len(gallery.paths)} files (PNG and SVG)")
    click.echo(f"next: edgebench fit {loaded.path}")
