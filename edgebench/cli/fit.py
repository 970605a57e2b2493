"""``edgebench fit``: how time grows as memory gets scarce."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.answers.fits import fits_table, models_tables
from edgebench.cli.options import json_option, results_argument, verbose_option
from edgebench.cli.output import (
    print_json,
    print_lines,
    print_next,
    print_table,
    print_warnings,
    shown_path,
    typed_path,
)

if TYPE_CHECKING:
    pass


@click.command()
@results_argument
@verbose_option("every model's errors")
@json_option("the fits")
def fit(results: Path, verbose: bool, as_json: bool) -> None:
    """Draw a curve through the newest sweep's slowdowns in RESULTS, and tell its error.

    RESULTS is a sweep's folder, or a folder of several. The error of each curve is that at limits
    that were left out of its fit. The fits are stored in fits/ in the sweep's folder.
    """
    from edgebench.results.results import latest, load
    from edgebench.slowdown.curves import curves
    from edgebench.slowdown.fit_files import curve_fits_as_json, save_fits
    from edgebench.slowdown.models.base import MODEL_SCHEMA
    from edgebench.slowdown.models.fitting import fit_all

    loaded = load(latest(results))
    found = curves(loaded)
    fits, skipped = fit_all(found, str(loaded.path))
    paths = save_fits(loaded.path, fits)
    warnings = (*loaded.warnings, *skipped)
    if as_json:
        print_warnings(warnings)
        about = {"schema": MODEL_SCHEMA, "path": loaded.path}
        every = [curve_fits_as_json(one) for one in fits]
        print_json({**about, "fits": every})
        return
    print_table(fits_table(fits))
    for table in models_tables(fits) if verbose else ():
        print_table(table)
    print_lines([f"fits: {len(paths)} files in {shown_path(paths[0].parent)}"])
    print_warnings(warnings, None if verbose else "--verbose")
    print_next(f"edgebench predict --results {typed_path(loaded.path)}")
