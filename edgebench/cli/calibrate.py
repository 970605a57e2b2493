"""``edgebench calibrate``: the speed of this device's memory, swap and disk."""

from __future__ import annotations

from pathlib import Path

import click

from edgebench.boards import RAM
from edgebench.cli.options import device_option, json_option, results_option, verbose_option
from edgebench.cli.output import (
    print_headline,
    print_json,
    print_next,
    print_table,
    print_warnings,
    shown_path,
    typed_path,
)
from edgebench.extras import need
from edgebench.text import AS_IS, parse_swap


@click.command()
@click.option(
    "--swap",
    metavar="SWAP",
    default="2G",
    help="Swap to calibrate: a size as 2G (a temporary swap file), zram:1G, system, or none.",
)
@click.option(
    "--storage",
    type=click.Choice([AS_IS, f"disk={RAM}"]),
    default=AS_IS,
    help="The machine's own disk as it is, or the disk in memory of storage disk=ram.",
)
@results_option
@device_option
@verbose_option("a line for each trial, and all constants with their lowest and highest repeat")
@json_option("the constants")
def calibrate(
    swap: str,
    storage: str,
    results: Path,
    device: str | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Measure the constants that predictions use: memory and files are scanned, a network slowed.

    Run nothing else meanwhile. The constants are stored with the device's results, one file for
    each kind of swap and disk; it replaces an earlier one.
    """
    from edgebench.cli.progress import shown_progress
    from edgebench.scenario.points import libraries

    need("scipy", *libraries({"kind": "hot-base"}))
    from edgebench.answers.models import calibration_table
    from edgebench.run import calibration

    kind, size_bytes = parse_swap(swap)
    with shown_progress(verbose) as progress:
        of_swap = device, kind, size_bytes
        options = calibration.CalibrationOptions(results, *of_swap, ram=storage != AS_IS)
        made, path = calibration.run_calibration(options, progress)
    if as_json:
        print_warnings(made.warnings)
        print_json({**made.to_json(), "path": path})
        return
    print_headline(f"{made.device}   swap {made.swap_kind}")
    print_table(calibration_table(made, verbose))
    click.echo(f"calibration: {shown_path(path)}")
    print_warnings(made.warnings, None if verbose else "--verbose")
    print_next(f"edgebench run quickstart --device {made.device} --results {typed_path(results)}")
