"""``edgebench validate``: how well the models predict what was held out."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgebench.cli.options import json_option, results_argument, verbose_option
from edgebench.cli.output import (
    figures_or_reason,
    print_figures,
    print_json,
    print_next,
    print_warnings,
    typed_path,
)
from edgebench.cli.validation_tables import print_validation

if TYPE_CHECKING:
    from edgebench.slowdown.evaluation.evaluation import Evaluation

_PHASES = ("all", "start", "total", "load", "first", "execute")


@click.command()
@results_argument
@click.option(
    "--hold-out",
    metavar="FAMILIES",
    default="",
    show_default=False,
    help="Families never used for fitting, as densenet,convnext; scored separately.",
)
@click.option(
    "--phase",
    type=click.Choice(_PHASES),
    default="all",
    help="The phase whose errors are shown; total: steady rounds.",
)
@click.option("--figures/--no-figures", default=True, help="Also draw figures.")
@verbose_option("every model's scores, kills, and each part of the simulation")
@json_option("all scores")
def validate(
    results: Path, hold_out: str, phase: str, figures: bool, verbose: bool, as_json: bool
) -> None:
    """Validate all models on held-out limits and networks, with the sweeps in RESULTS.

    One limit, network, family and schedule at a time is held out, and predicted from the rest.
    """
    from edgebench.cli.progress import shown_progress
    from edgebench.results.results import load
    from edgebench.slowdown.context import with_trainings
    from edgebench.slowdown.evaluation.evaluation import evaluate

    loaded, untold = with_trainings(load(results))
    families = [word.strip() for word in hold_out.split(",") if word.strip()]
    with shown_progress() as progress:
        proof = evaluate(loaded, families, progress.stage)
        draw = partial(_draw, loaded, proof, results)
        files, why_not = figures_or_reason(draw) if figures else ([], [])
    warnings = (*loaded.warnings, *untold, *proof.lacking, *why_not)
    if as_json:
        print_warnings(warnings)
        print_json(_as_json(proof, results, files))
        return
    print_validation(proof, phase, verbose)
    print_figures(files)
    print_warnings(warnings)
    print_next(f"edgebench predict {typed_path(results)} --memory 50%")


def _as_json(proof: Evaluation, results: Path, files: list[Path]) -> dict[str, Any]:
    from edgebench.slowdown.evaluation.use_scores import use_scores
    from edgebench.slowdown.models.base import MODEL_SCHEMA

    return {
        "schema": MODEL_SCHEMA,
        "path": results,
        "held_out": proof.held_out,
        "scores": [asdict(score) for score in proof.scores],
        "uses": [asdict(score) for score in use_scores(proof.answers)],
        "viability": [asdict(score) for score in proof.viability],
        "links": [asdict(score) for score in proof.link_scores],
        "lacking": proof.lacking,
        "figures": files,
    }


def _draw(loaded: Any, proof: Evaluation, results: Path) -> list[Path]:
    from edgebench.report.figures.validation import draw_validation

    return draw_validation(loaded, proof, results)
