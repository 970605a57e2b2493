"""``edgebench plot``: a sweep's figures."""

from __future__ import annotations

from pathlib import Path

import click

from edgebench.cli.options import json_option, results_argument
from edgebench.cli.output import (
    print_figures,
    print_headline,
    print_json,
    print_next,
    print_warnings,
    typed_path,
)


@click.command()
@results_argument
@click.option("--trial", metavar="ID", help="Draw only this trial's memory over time, as 0012.")
@click.option("--all", "every", is_flag=True, help="Draw all figures, not only the first six.")
@click.option("--phases", is_flag=True, help="Draw slowdown by phase: loading, executing, ….")
@json_option("the files' paths")
def plot(results: Path, trial: str | None, every: bool, phases: bool, as_json: bool) -> None:
    """Draw the newest sweep in RESULTS: a sweep's folder, or a folder of several.

    Each figure is written as PNG and SVG to figures/ in the sweep's folder. A figure that can't be
    drawn is named with the reason.
    """
    from edgebench.report.figures.gallery import WrittenFigures, draw_all, draw_trial
    from edgebench.results.results import latest, load

    loaded = load(latest(results))
    if trial is None:
        gallery = draw_all(loaded, every=every, phases=phases)
    else:
        gallery = WrittenFigures(draw_trial(loaded, trial), [])
    if as_json:
        print_warnings((*loaded.warnings, *gallery.left_out))
        print_json({"path": loaded.path, "files": gallery.paths})
        return
    count = sum(path.suffix == ".png" for path in gallery.paths)
    drawn = "1 figure" if count == 1 else f"{count} figures"
    print_headline(f"{drawn} of {loaded.path.name}, each as PNG and SVG")
    print_figures(gallery.paths)
    print_warnings((*loaded.warnings, *gallery.left_out), "--json")
    print_next(f"edgebench report {typed_path(loaded.path)}")
