"""``edgebench fit``: how time grows as memory gets scarce."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.cli.options import json_option, results_argument, verbose_option
from edgebench.cli.output import (
    print_answer,
    print_json,
    print_lines,
    print_next,
    print_table,
    print_title,
    print_warnings,
    shown_path,
    typed_path,
)
from edgebench.units import format_size

if TYPE_CHECKING:
    from edgebench.slowdown.models.fitting import CurveFits, Errors

_TITLES = ("model", "error", "median", "inside", "outside")
_LEGEND = (
    "slowest: the largest measured slowdown; error: mean error of predictions at limits that were "
    "left out of the fit"
)
_STATISTICS = (
    "error: of the predicted time at a limit that was left out of the fit, mean; then the median, "
    "the mean for limits inside the range of the others, and outside it"
)


@click.command()
@results_argument
@verbose_option("every model's errors")
@json_option("the fits")
def fit(results: Path, verbose: bool, as_json: bool) -> None:
    """Draw a curve through the newest sweep's slowdowns in RESULTS, and tell its error.

    RESULTS is a sweep's folder, or a folder of several. The error of each curve is that at limits
    that were left out of its fit. The fits are stored in fits/ in the sweep's folder.
    """
    from edgebench.cli.run_output import run_answer
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
    print_answer([*run_answer(loaded.path), *_model_sentence(fits)])
    _print_fits(fits, verbose)
    print_lines([f"fits: {len(paths)} files in {shown_path(paths[0].parent)}"])
    print_warnings(warnings, None if verbose else "--verbose")
    print_next(f"edgebench predict --results {typed_path(loaded.path)}")


def _print_fits(fits: Sequence[CurveFits], verbose: bool) -> None:
    """A row a curve; with ``verbose`` a table a curve, of all models."""
    print_lines([""])
    titles = ("curve", "unlimited", "slowest", "model", "error")
    print_table(titles, [_brief_row(one) for one in fits], words=("curve", "model"))
    if verbose:
        click.echo()
        for one in fits:
            _print_curve(one)
    _print_summary(fits, verbose)
    print_lines(["", _STATISTICS if verbose else _LEGEND])


def _model_sentence(fits: Sequence[CurveFits]) -> list[str]:
    """The model that predicts best in all curves together, and how far off it is."""
    from edgebench.slowdown.models.fitting import shared_errors
    from edgebench.words.model import best_model_sentence

    found = shared_errors(fits)
    if not found:
        return []
    best = min(found, key=lambda name: found[name].log_ratio)
    return [best_model_sentence(best, found[best].log_ratio)]


def _brief_row(fits: CurveFits) -> list[str]:
    curve, best = fits.curve, fits.best
    unlimited, slowest = curve.unlimited_words, f"{curve.medians.max():.3g}×"
    error = f"{best.errors.mape:.0%}" if best and best.errors else "-"
    return [curve.label, unlimited, slowest, best.model if best else "-", error]


def _print_curve(fits: CurveFits) -> None:
    print_title(fits.curve.label)
    print_lines(_about(fits))
    rows = [_row(one.model, one.errors) for one in fits.fits]
    print_table(_TITLES, rows, words=("model",))


def _about(fits: CurveFits) -> Iterator[str]:
    curve = fits.curve
    low, high = (format_size(float(limit)) for limit in (curve.limits[0], curve.limits[-1]))
    yield f"{len(curve.seconds)} trials at {len(curve.limits)} limits, {low} to {high}"
    words = f"unlimited {curve.unlimited_words}"
    if curve.demand_bytes is not None:
        words += f"; demand {format_size(curve.demand_bytes)}"
    yield words + (f"; repeats differ by {curve.noise:.1%}" if curve.noise is not None else "")


def _row(name: str, errors: Errors | None) -> list[str]:
    shares: list[float | None] = [None] * 4
    if errors:
        shares = [errors.mape, errors.median_ape, errors.mape_inside, errors.mape_outside]
    return [name, *("-" if share is None else f"{share:.1%}" for share in shares)]


def _print_summary(every: Sequence[CurveFits], verbose: bool) -> None:
    """All curves together, and which could not be fitted."""
    from edgebench.slowdown.models.fitting import shared_errors

    found = shared_errors(every)
    if verbose and len(every) > 1 and found:
        print_title("all curves together")
        rows = [[*_row(name, errors), str(errors.count)] for name, errors in found.items()]
        print_table((*_TITLES, "limits"), rows, words=("model",))
    unfit = [one for fits in every for one in fits.fits if one.fitted is None and one.reason]
    if verbose:
        print_lines(dict.fromkeys(f"not fitted: {s.model}: {s.reason}" for s in unfit))
