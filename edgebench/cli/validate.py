"""``edgebench validate``: how right the models are about what they were not shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgebench.records.records import SCHEMA

if TYPE_CHECKING:
    from rich.console import Console

    from edgebench.slowdown.proof import Proof
    from edgebench.slowdown.scores import Score

_PHASES = ("all", "total", "load", "first", "execute")
#: Split → what the models did not know, in the order that is shown.
_TITLES = {
    "limit-inside": "one limit left out, others on both sides",
    "limit-outside": "the tightest or widest limit left out",
    "network": "one network left out; its unlimited trials known",
    "network-unrun": "one network left out, and no trial of it known",
    "family": "one family of networks left out",
    "schedule": "one schedule left out",
    "held-out": "families kept out of everything: {}",
    "held-out-unrun": "families kept out of everything, no trial of them known: {}",
}


@click.command(short_help="Hold every model against limits and networks it was not shown.")
@click.argument("results", type=click.Path(path_type=Path), default=Path("results"))
@click.option(
    "--hold-out",
    metavar="FAMILIES",
    default="",
    help="Families of networks kept out of all fitting, as densenet,convnext; reported apart.",
)
@click.option(
    "--phase", type=click.Choice(_PHASES), default="all", show_default=True, help="Whose errors."
)
@click.option("--figures/--no-figures", default=True, show_default=True, help="Draw them as well.")
@click.option("--json", "as_json", is_flag=True, help="Print all scores as JSON on stdout.")
def validate(results: Path, hold_out: str, phase: str, figures: bool, as_json: bool) -> None:
    """Hold every model against what it was not shown, in the sweeps at or below RESULTS.

    One limit, network, family and schedule is left out at a time. Errors are of seconds.
    """
    from edgebench.cli.progress import make_progress
    from edgebench.describing import with_trainings
    from edgebench.results.results import load
    from edgebench.slowdown.proof import prove

    loaded, untold = with_trainings(load(results))
    families = [word.strip() for word in hold_out.split(",") if word.strip()]
    progress = make_progress()
    try:
        proof = prove(loaded, families, progress.stage)
        files, why_not = _draw(loaded, proof, results) if figures else ([], [])
    finally:
        progress.close()
    for warning in (*loaded.warnings, *untold, *proof.lacking, *why_not):
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        click.echo(json.dumps(_as_json(proof, results, files)))
        return
    _print(proof, phase)
    for file in files:
        if file.suffix == ".png":
            click.echo(f"figure: {file}")
    click.echo(f"next: edgebench predict {results} --memory 50%")


def _as_json(proof: Proof, results: Path, files: Sequence[Path]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "path": str(results),
        "held_out": list(proof.held_out),
        "scores": [asdict(score) for score in proof.scores],
        "viability": [asdict(score) for score in proof.viability],
        "links": [asdict(score) for score in proof.link_scores],
        "lacking": proof.lacking,
        "figures": [str(file) for file in files],
    }


def _draw(loaded: Any, proof: Proof, results: Path) -> tuple[list[Path], list[str]]:
    try:
        from edgebench.figures.validation import draw
    except ModuleNotFoundError as error:
        return [], [f"no figures: {error.name} is missing (pip install 'edgebench[plot]')"]
    return draw(loaded, proof, results), []


def _print(proof: Proof, phase: str) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 140)
    for split, title in _TITLES.items():
        scores = [one for one in proof.scores if one.split == split and one.phase == phase]
        if scores:
            console.print(title.format(", ".join(proof.held_out)), style="bold", markup=False)
            _print_scores(console, scores)
    _print_viability(console, proof)
    _print_links(console, proof)
    console.print(
        "Errors are of seconds, predicted against the measured median. noise: what repeats "
        "differ by.\nknee: |ln| of predicted against measured limit at which slowdown passes 1.2.",
        style="dim",
        markup=False,
    )


def _print_scores(console: Console, scores: Iterable[Score]) -> None:
    titles = ("asked", "median", "mean", "±5 %", "±10 %", "±15 %", "±25 %", "bias")
    rows = []
    for one in scores:
        within = (one.within_5, one.within_10, one.within_15, one.within_25)
        rows.append(
            (
                one.rung,
                str(one.count),
                *(f"{share:.1%}" for share in (one.median_ape, one.mape)),
                *(f"{share:.0%}" for share in within),
                f"{one.bias:+.1%}",
                _share(one.coverage_90),
                _share(one.noise),
                "-" if one.knee is None else f"{one.knee:.2f}",
            )
        )
    _print_table(console, ("model", *titles, "in interval", "noise", "knee"), rows)


def _print_viability(console: Console, proof: Proof) -> None:
    if not proof.viability:
        return
    console.print("viability: does a trial finish? Predicted without its network", style="bold")
    titles = ("left out", "trials", "killed", "right", "wrongly viable", "wrongly killed")
    rows = [
        (
            *(one.split, str(one.trials), str(one.killed), f"{one.right:.1%}"),
            *(str(one.wrongly_viable), str(one.wrongly_killed), str(one.dangerous)),
            *(str(one.edges), _share(one.within_10), _share(one.median_error)),
        )
        for one in proof.viability
    ]
    more = ("dangerous", "edges seen", "within 10 %", "median error")
    _print_table(console, (*titles, *more), rows)


def _print_links(console: Console, proof: Proof) -> None:
    if not proof.link_scores:
        return
    console.print("each link of the physical model alone", style="bold")
    rows = [
        (
            *(one.name, str(one.count), f"{one.ratio:.2f}", f"{one.overall:.2f}"),
            f"{one.within_25:.0%}",
            "-" if one.rank is None else f"{one.rank:.2f}",
        )
        for one in proof.link_scores
    ]
    titles = ("link", "asked", "median ratio", "ratio of sums", "±25 %", "rank correlation")
    _print_table(console, titles, rows)


def _print_table(console: Console, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column(titles[0], no_wrap=True)
    for title in titles[1:]:
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print()


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
