"""``edgebench fit``: how time grows as memory gets scarce."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
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
from edgebench.units import format_duration, format_size

if TYPE_CHECKING:
    from edgebench.slowdown.models.fitting import CurveFits, Errors

_TITLES = ("", "model", "error", "median", "inside", "outside")
#: Costs a byte, and how they are called as rates.
_RATES = {
    "in_s": "from swap",
    "out_s": "to swap",
    "file_s": "from mapped files",
    "reclaim_s": "reclaimed",
}
_LEGEND = (
    "slowest: the largest measured slowdown; error: mean error of predictions at limits that were "
    "left out of the fit"
)
_STATISTICS = (
    "error: of the predicted time at a limit that was left out of the fit, mean; then the median, "
    "the mean for limits inside the range of the others, and outside it; *: recommended, because "
    "its predictions are nearest by ratio to the measured times"
)


@click.command()
@results_argument
@verbose_option("every model's errors, and the device's costs")
@json_option("the fits")
def fit(results: Path, verbose: bool, as_json: bool) -> None:
    """Fit models of the slowdown to the newest sweep in RESULTS.

    RESULTS is a sweep's folder, or a folder of several. Each curve is shown with the model that
    predicts best the limits that were left out of its fit. The fits are stored in fits/ in the
    sweep's folder.
    """
    from edgebench.cli.run_output import run_answer
    from edgebench.results.results import latest, load
    from edgebench.slowdown.context import context_of
    from edgebench.slowdown.curves import curves
    from edgebench.slowdown.models.base import MODEL_SCHEMA
    from edgebench.slowdown.models.fitting import fit_all
    from edgebench.slowdown.stored_fits import curve_fits_as_json, save_fits, shared_fits_as_json
    from edgebench.slowdown.training_tables import with_trainings

    loaded, trainings = with_trainings(load(latest(results)))
    found = curves(loaded)
    context, lacking = context_of(loaded, found)
    fits, skipped = fit_all(found, str(loaded.path), context)
    paths = save_fits(loaded.path, fits)
    untold = [f"a training's layers: {why}" for why in trainings.reasons]
    warnings = (*loaded.warnings, *untold, *skipped, *lacking)
    if as_json:
        print_warnings(warnings)
        about = {"schema": MODEL_SCHEMA, "path": loaded.path}
        every = [curve_fits_as_json(one) for one in fits]
        print_json({**about, "fits": every, "shared": shared_fits_as_json(fits)})
        return
    print_answer([*run_answer(loaded.path), *_model_sentence(fits)])
    _print_fits(fits, verbose)
    print_lines([f"fits: {len(paths)} files in {shown_path(paths[0].parent)}"])
    print_warnings(warnings)
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
    best = _nearest_name(fits, found)
    if best is None:
        return []
    return [best_model_sentence(best, found[best].log_ratio)]


def _nearest_name(fits: Sequence[CurveFits], found: Mapping[str, Errors]) -> str | None:
    """The nearest of the models that pass by no measured point; None if none has errors."""
    meeting = {one.model.name for curve in fits for one in curve.fits if one.model.meets_points}
    known = [name for name in found if name in meeting]
    return min(known, key=lambda name: found[name].log_ratio, default=None)


def _brief_row(fits: CurveFits) -> list[str]:
    curve, best = fits.curve, fits.recommended
    unlimited, slowest = curve.unlimited_words, f"{curve.medians.max():.3g}×"
    error = f"{best.errors.mape:.0%}" if best and best.errors else "-"
    return [curve.label, unlimited, slowest, best.model.name if best else "-", error]


def _print_curve(fits: CurveFits) -> None:
    print_title(fits.curve.label)
    print_lines(_about(fits))
    rows = [_row(one.model.name, one.errors, one is fits.recommended) for one in fits.fits]
    print_table(_TITLES, rows, words=("", "model"), keys=2)


def _about(fits: CurveFits) -> Iterator[str]:
    curve = fits.curve
    low, high = (format_size(float(limit)) for limit in (curve.limits[0], curve.limits[-1]))
    yield f"{len(curve.seconds)} trials at {len(curve.limits)} limits, {low} to {high}"
    words = f"unlimited {curve.unlimited_words}"
    if curve.demand_bytes is not None:
        words += f"; demand {format_size(curve.demand_bytes)}"
    yield words + (f"; repeats differ by {curve.noise:.1%}" if curve.noise is not None else "")


def _row(name: str, errors: Errors | None, is_best: bool) -> list[str]:
    shares: list[float | None] = [None] * 4
    if errors:
        shares = [errors.mape, errors.median_ape, errors.mape_inside, errors.mape_outside]
    cells = ("-" if share is None else f"{share:.1%}" for share in shares)
    return ["*" if is_best else "", name, *cells]


def _print_summary(every: Sequence[CurveFits], verbose: bool) -> None:
    """All curves together, which model is recommended, and which models could not be fitted."""
    from edgebench.slowdown.models.fitting import shared_errors

    found = shared_errors(every)
    if verbose and len(every) > 1 and found:
        best = _nearest_name(every, found)
        print_title("all curves together")
        rows = [
            [*_row(name, errors, name == best), str(errors.count), _factor(errors)]
            for name, errors in found.items()
        ]
        titles = (*_TITLES, "limits", "mean factor")
        print_table(titles, rows, words=("", "model"), keys=2)
    unfit = [step for fits in every for step in fits.fits if step.fit is None and step.reason]
    if verbose:
        print_lines(dict.fromkeys(f"not fitted: {s.model.name}: {s.reason}" for s in unfit))
        print_lines(_cost_lines(every))


def _factor(errors: Errors) -> str:
    return f"{math.exp(errors.log_ratio):.2f}×"


def _cost_lines(every: Sequence[CurveFits]) -> Iterator[str]:
    """What the device's costs are, as these trials show them."""
    for step in (step for fits in every for step in fits.fits if step.fit):
        assert step.fit is not None
        found = dict(step.fit.starting("cost."))
        if found:
            rates = [
                f"{words} {format_size(1 / found[name])}/s"
                for name, words in _RATES.items()
                if found.get(name)
            ]
            fault = f"a fault {format_duration(found['fault_s'])}"
            yield f"costs, by the calibration and these trials: {', '.join([fault, *rates])}"
            return
