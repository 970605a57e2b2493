"""``edgebench fit``: how time grows as memory gets scarce."""

from __future__ import annotations

from pathlib import Path

import click

from edgebench.cli.options import json_option, results_argument
from edgebench.cli.output import (
    print_json,
    print_next,
    print_table,
    print_warnings,
    typed_path,
)


@click.command()
@results_argument
@json_option("the fits")
def fit(results: Path, as_json: bool) -> None:
    """Draw a curve through the newest sweep's slowdowns in RESULTS, and tell its error.

    RESULTS is a sweep's folder, or a folder of several. The error of each curve is that at limits
    that were left out of its fit.
    """
    from edgebench.answers.models import fits_table
    from edgebench.results.results import latest, load
    from edgebench.slowdown.curves import MODEL_SCHEMA, curves, fit_all

    loaded = load(latest(results))
    fits, skipped = fit_all(curves(loaded), str(loaded.path))
    warnings = (*loaded.warnings, *skipped)
    if as_json:
        print_warnings(warnings)
        every = [one.to_json() for one in fits]
        print_json({"schema": MODEL_SCHEMA, "path": loaded.path, "fits": every})
        return
    print_table(fits_table(fits))
    print_warnings(warnings, "--json")
    print_next(f"edgebench predict --results {typed_path(loaded.path)}")
