"""``edgebench calibrate``: the speed of this device's memory, swap and disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.boards.storage import AS_IS, RAM
from edgebench.cli.options import device_option, json_option, results_option, verbose_option
from edgebench.cli.output import (
    print_answer,
    print_json,
    print_next,
    print_table,
    print_warnings,
    shown_path,
    typed_path,
)
from edgebench.extras import need
from edgebench.units import parse_swap
from edgebench.words.calibration import calibration_sentence, constant_words

if TYPE_CHECKING:
    from edgebench.slowdown.calibration.device import Calibration, Constant

#: Constant → what it means, in the order they are shown.
MEANINGS = {
    "swap_in_bytes_per_s": "reading from swap, beside faults",
    "swap_out_bytes_per_s": "writing to swap",
    "file_read_bytes_per_s": "reading an uncached file",
    "file_fault_bytes_per_s": "touching an uncached mapped file",
    "fault_s": "a major fault, beside the transfer",
    "minor_fault_s": "the first touch of a page",
    "pages_per_fault": "read from swap by one fault",
    "file_pages_per_fault": "read from a mapped file by one fault",
    "lru_share": "eviction (1: LRU, 0: best choice)",
    "base_bytes": "the runtime alone, unlimited",
    "hot_base_bytes": "of it kept at a tight limit",
    "disk_read_bytes_per_s": "the disk itself, in sequence",
    "disk_read_iops": "the disk itself, 4 KiB anywhere",
    "request_s": "one such request, alone",
    "swap_request_bytes": "read from swap by one request",
    "file_request_bytes": "read from a mapped file by one request",
    "held_share": "reached of a declared speed",
}


@click.command()
@click.option(
    "--swap",
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
@verbose_option(
    "a line for each trial, the lowest and highest of each constant's repeats, and its name in JSON"
)
@json_option("the constants")
def calibrate(
    swap: str,
    storage: str,
    results: Path,
    device: str | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Measure the constants that predictions use, by scanning memory and files.

    No network is run. Run nothing else meanwhile. The constants are stored with the device's
    results, one file for each kind of swap and disk; it replaces an earlier one.
    """
    from edgebench.cli.progress import shown_progress
    from edgebench.scenario.libraries import libraries

    need("scipy", *libraries({"kind": "hot-base"}))
    from edgebench.run import calibration

    kind, size_bytes = parse_swap(swap)
    with shown_progress(verbose) as progress:
        of_swap = device, kind, size_bytes
        options = calibration.CalibrationOptions(results, *of_swap, ram=storage != AS_IS)
        made, path = calibration.run_calibration(options, progress, _import_constants)
    if as_json:
        print_warnings(made.warnings)
        print_json({**made.to_json(), "path": path})
        return
    print_answer([calibration_sentence(made)])
    titles = ["what", "median", *(("lowest", "highest", "constant") if verbose else ())]
    rows = [row[: len(titles)] for row in _rows(made)]
    print_table(titles, rows, words=("what", "constant"))
    click.echo(f"calibration: {shown_path(path)}")
    print_warnings(made.warnings, None if verbose else "--verbose")
    print_next(f"edgebench run quickstart --device {made.device} --results {typed_path(results)}")


def _import_constants() -> None:
    """What the constants need takes longer to import than to use."""
    from edgebench.slowdown.calibration.constants import constants_of  # noqa: F401


def _rows(made: Calibration) -> Iterator[list[str]]:
    for name, meaning in MEANINGS.items():
        found: Constant | None = getattr(made, name)
        values = ["-"] * 3
        if found:
            values = [constant_words(v, found.unit) for v in (found.value, found.low, found.high)]
        yield [meaning, *values, name]
