"""``edgebench compare``: two sweeps, and what got worse."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.cli.compare_output import print_comparisons, print_github
from edgebench.cli.options import json_option, offer_sweeps, verbose_option
from edgebench.cli.output import print_json, print_next, print_warnings, typed_path
from edgebench.errors import RegressionError, UsageError
from edgebench.units import parse_share
from edgebench.words.comparison import regression_words

if TYPE_CHECKING:
    pass


@click.command()
@click.argument("a", type=click.Path(path_type=Path), shell_complete=offer_sweeps)
@click.argument("b", type=click.Path(path_type=Path), required=False, shell_complete=offer_sweeps)
@click.argument("others", nargs=-1, type=click.Path(path_type=Path), shell_complete=offer_sweeps)
@click.option("--threshold", default="5%", help="Ignore changes up to this fraction.")
@click.option("--across-devices", is_flag=True, help="Compare even if the devices differ.")
@click.option("--across-storage", is_flag=True, help="Compare even if the storage speeds differ.")
@click.option(
    "--devices", is_flag=True, help="Compare devices: the newest sweep of each, of one scenario."
)
@click.option("--within", help="With --devices: what is fast enough, as 500ms.")
@click.option("--all", "all_rows", is_flag=True, help="Also list what did not change.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "github"]),
    default="text",
    help="github: Markdown for a step's summary, and an annotation if something got worse.",
)
@verbose_option("intervals, p-values, and the repeats needed to show a change")
@json_option("every comparison")
def compare(
    a: Path,
    b: Path | None,
    others: tuple[Path, ...],
    threshold: str,
    all_rows: bool,
    verbose: bool,
    as_json: bool,
    devices: bool,
    within: str | None,
    form: str,
    **across: bool,
) -> None:
    """Compare sweep B with the earlier sweep A, point by point; or several devices (--devices).

    Of two versions run in turn (run --in-turn-with), A alone is enough. The first sentence is
    about all times together. A change counts if it is larger than the threshold and statistically
    significant, over all times or at one point. The exit code is 4 if something got worse.
    """
    if devices:
        from edgebench.cli.compare_output import compare_devices

        paths = [path for path in (a, b, *others) if path is not None]
        compare_devices(paths, within, as_json)
        return
    a, b = _two_sweeps(a, b, others)
    _compare_two(a, b, threshold, all_rows, verbose, "json" if as_json else form, across)


def _two_sweeps(a: Path, b: Path | None, others: tuple[Path, ...]) -> tuple[Path, Path]:
    """The two sweeps to compare; of one that was made in turn, both."""
    from edgebench.results.in_turn import versions_in_turn
    from edgebench.results.results import latest

    found = versions_in_turn(latest(a)) if b is None else (a, b)
    if found is None or others:
        raise UsageError(
            "compare takes two sweeps, or one that was made in turn with another",
            where="A B",
            remedy="edgebench compare A B; of several devices: edgebench compare --devices results",
        )
    return found


def _compare_two(
    a: Path,
    b: Path,
    threshold: str,
    all_rows: bool,
    verbose: bool,
    form: str,
    across: dict[str, bool],
) -> None:
    from edgebench.analysis.compare import compare_sweeps
    from edgebench.results.results import latest, load

    share = parse_share(threshold)
    if share is None:
        raise UsageError(
            f"{threshold!r} is not a percentage", where="--threshold", remedy="--threshold 10%"
        )
    sweeps = [load(latest(path)).sweeps[0] for path in (a, b)]
    compared = compare_sweeps(sweeps[0], sweeps[1], threshold=share, **across)
    if form == "json":
        print_warnings(compared.warnings)
        ends = {"a": sweeps[0].path, "b": sweeps[1].path}
        print_json({**ends, "regressions": len(compared.regressions), **asdict(compared)})
    elif form == "github":
        print_github(sweeps, compared, all_rows)
        print_warnings(compared.warnings)
    else:
        print_comparisons(sweeps, compared, all_rows, verbose)
        print_warnings(compared.warnings, None if verbose else "--verbose")
    if compared.regressions or compared.is_slower_overall:
        raise RegressionError(
            regression_words(compared),
            where=str(sweeps[1].path),
            remedy=f"edgebench show {typed_path(sweeps[1].path)}",
        )
    if form == "text":
        print_next(f"edgebench show {typed_path(sweeps[1].path)}")
