"""``edgebench validate``: how well the models predict what was held out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgebench.cli.options import json_option, results_argument, verbose_option
from edgebench.cli.output import (
    figures_or_reason,
    print_answer,
    print_figures,
    print_json,
    print_lines,
    print_next,
    print_table,
    print_title,
    print_warnings,
    shown_path,
)
from edgebench.text import joined_words

if TYPE_CHECKING:
    from edgebench.slowdown.evaluation.evaluation import Evaluation
    from edgebench.slowdown.evaluation.scores import Score
    from edgebench.slowdown.evaluation.slowed_scores import SlowedScore

_PHASES = ("all", "start", "total", "load", "first", "execute")
#: Split → what was held out, in the order that is shown.
_TITLES = {
    "limit-inside": "one limit held out, with limits on both sides of it known",
    "limit-outside": "the tightest or the widest limit held out",
    "network": "one network held out, with its unlimited trials known",
    "network-unrun": "one network held out, with no trial of it known",
    "family": "one family of networks held out",
    "schedule": "one schedule held out",
    "held-out": "families never used for fitting: {}",
    "held-out-unrun": "families never used for fitting, with no trial of them known: {}",
}
#: Split → the same in the first table.
_SPLITS = {
    "limit-inside": "limit, others on both sides",
    "limit-outside": "tightest or widest limit",
    "network": "network, unlimited trials known",
    "network-unrun": "network, nothing known",
    "family": "family of networks",
    "schedule": "schedule",
    "held-out": "held-out families",
    "held-out-unrun": "held-out families, nothing known",
}
#: Split → whom the first sentence is about.
_ANSWERED = {
    "held-out": "if no network of its family was run",
    "held-out-unrun": "if that and its unlimited time are unknown",
    "network": "if its unlimited time is known",
    "network-unrun": "if it was never run",
}
_CHOSEN_AFTER = "*: the model that turned out best; predict can choose a worse one"
_LEGEND = (
    "errors are of seconds, predicted against the measured median; noise: how far repeats differ; "
    "knee: |ln| of predicted / measured limit at which the slowdown passes 1.2"
)


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
@verbose_option("every model's scores, kills, and each part of the physical model")
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
    from edgebench.slowdown.evaluation.slowed_scores import slowed_scores

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
    found = {one.split: one for one in slowed_scores(proof.answers, phase)}
    found = {split: found[split] for split in _TITLES if split in found}
    print_answer([_answer(found)])
    if found:
        _print_slowed(found)
    if verbose:
        _print_all(proof, phase)
    print_figures(files)
    print_warnings(warnings)
    print_next(f"edgebench predict {shown_path(results)} --memory 50%")


def _answer(found: Mapping[str, SlowedScore]) -> str:
    """The error for new networks where memory matters; without such, at limits left out."""
    news = [split for split in _ANSWERED if split in found]
    if news:
        models = joined_words(dict.fromkeys(m for split in news for m in found[split].models))
        return (
            f"Where memory slows a new network 1.5× or more, half of the times predicted by "
            f"{models} are off by at most "
            + ", ".join(f"{_error(found[split])} {_ANSWERED[split]}" for split in news)
            + "."
        )
    if one := found.get("limit-inside") or found.get("limit-outside"):
        (model,) = one.models
        return (
            f"At limits left out, where memory slows a workload 1.5× or more, half of the times "
            f"predicted by {model}, which turned out best, are off by at most {_error(one)}."
        )
    return "No held-out point is slowed 1.5× or more: nothing to judge predictions by (--verbose)."


def _error(one: SlowedScore) -> str:
    if one.baseline_ape is None:
        return f"{one.median_ape:.0%}"
    return f"{one.median_ape:.0%} (always saying “not slowed”: {one.baseline_ape:.0%})"


def _print_slowed(found: Mapping[str, SlowedScore]) -> None:
    """The model of each split beside the baseline: a row each."""
    rows = [
        [
            *(_SPLITS[split], joined_words(one.models) + "*" * one.chosen_after, str(one.count)),
            *(_share(one.median_ape), _share(one.baseline_ape)),
            _share(one.coverage_90),
        ]
        for split, one in found.items()
    ]
    errors = ("median\nerror", "“not\nslowed”", "in 90 %\ninterval")
    print_table(("held out", "model", "points", *errors), rows, words=("held out", "model"), gap=1)
    notes = ["points slowed 1.5× or more"]
    notes += [_CHOSEN_AFTER] if any(one.chosen_after for one in found.values()) else []
    print_lines(["; ".join(notes)])


def _print_all(proof: Evaluation, phase: str) -> None:
    for split, title in _TITLES.items():
        scores = [one for one in proof.scores if one.split == split and one.phase == phase]
        if scores:
            print_title(title.format(", ".join(proof.held_out)))
            _print_scores(scores)
    _print_viability(proof)
    _print_links(proof)
    print_lines(["", _LEGEND])


def _as_json(proof: Evaluation, results: Path, files: list[Path]) -> dict[str, Any]:
    from edgebench.slowdown.evaluation.slowed_scores import slowed_scores
    from edgebench.slowdown.models.base import MODEL_SCHEMA

    return {
        "schema": MODEL_SCHEMA,
        "path": results,
        "held_out": proof.held_out,
        "scores": [asdict(score) for score in proof.scores],
        "slowed": [asdict(score) for score in slowed_scores(proof.answers)],
        "viability": [asdict(score) for score in proof.viability],
        "links": [asdict(score) for score in proof.link_scores],
        "lacking": proof.lacking,
        "figures": files,
    }


def _draw(loaded: Any, proof: Evaluation, results: Path) -> list[Path]:
    from edgebench.report.figures.validation import draw_validation

    return draw_validation(loaded, proof, results)


def _print_scores(scores: Iterable[Score]) -> None:
    titles = ("model", "cases", "median", "mean", "±5 %", "±10 %", "±15 %", "±25 %", "bias")
    rows = []
    for one in scores:
        within = (one.within_5, one.within_10, one.within_15, one.within_25)
        about = [one.model, str(one.count), _share(one.median_ape), _share(one.mape)]
        about += [*(f"{share:.0%}" for share in within), f"{one.bias:+.1%}"]
        about += [_share(one.coverage_90), _share(one.noise)]
        rows.append([*about, "-" if one.knee is None else f"{one.knee:.2f}"])
    print_table((*titles, "in interval", "noise", "knee"), rows, words=("model",))


def _print_viability(proof: Evaluation) -> None:
    if not proof.viability:
        return
    print_title("does a trial finish? Predicted without its network")
    titles = ("held out", "trials", "killed", "right", "wrongly viable", "wrongly killed")
    rows = [
        [
            *(one.split, str(one.trials), str(one.killed), f"{one.right:.1%}"),
            *(str(one.wrongly_viable), str(one.wrongly_killed), str(one.dangerous)),
            *(str(one.edges), _share(one.within_10), _share(one.median_error)),
        ]
        for one in proof.viability
    ]
    more = ("dangerous", "edges seen", "within 10 %", "median error")
    print_table((*titles, *more), rows, words=("held out",))


def _print_links(proof: Evaluation) -> None:
    if not proof.link_scores:
        return
    print_title("each part of the physical model alone")
    rows = [
        [
            *(one.name, str(one.count), f"{one.ratio:.2f}", f"{one.overall:.2f}"),
            *(f"{one.within_25:.0%}", "-" if one.rank is None else f"{one.rank:.2f}"),
        ]
        for one in proof.link_scores
    ]
    titles = ("part", "cases", "median ratio", "ratio of sums", "±25 %", "rank correlation")
    print_table(titles, rows, words=("part",))


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
