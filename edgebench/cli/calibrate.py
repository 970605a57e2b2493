"""``edgebench calibrate``: the device's constants."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.cli.options import device_option, results_option
from edgebench.errors import EdgebenchError, UsageError
from edgebench.units import format_duration, format_size, parse_size

if TYPE_CHECKING:
    from edgebench.slowdown.calibration.device import Calibration, Constant

#: Constant → what it means, in the order they are shown.
MEANINGS = {
    "swap_in_bytes_per_s": "memory coming back from swap, beyond its faults",
    "swap_out_bytes_per_s": "changed memory going to swap",
    "file_read_bytes_per_s": "a file not in RAM, read (loader copy)",
    "file_fault_bytes_per_s": "a file not in RAM, mapped and touched (loader mmap)",
    "fault_s": "one fault that waits for the disk or swap, beyond its transfer",
    "minor_fault_s": "the first touch of a page",
    "pages_per_fault": "pages that one fault brings back from swap (read-ahead)",
    "file_pages_per_fault": "pages that one fault brings in of a mapped file",
    "lru_share": "1: drops what was used longest ago; 0: drops the best choice",
    "base_bytes": "the runtime before any network, unlimited",
    "hot_base_bytes": "what of it stays in RAM under pressure",
}
_SWAP_REMEDY = "write it as 2G (a swap file), zram:1G, system or none"


@click.command(short_help="Measure what this device's memory and disks cost, in two minutes.")
@click.option(
    "--swap",
    default="2G",
    show_default=True,
    help="Swap to calibrate: a size as 2G (a temporary swap file), zram:1G, system, or none.",
)
@results_option
@device_option
@click.option("--json", "as_json", is_flag=True, help="Print the constants as JSON on stdout.")
def calibrate(swap: str, results: Path, device: str | None, as_json: bool) -> None:
    """Measure the constants that predictions are made from, by scanning memory and files.

    No network is run. Let nothing else run meanwhile. The constants are kept with the device's
    results, one file for each kind of swap; an earlier one is replaced.
    """
    from edgebench.calibrating.calibration import CalibrationOptions
    from edgebench.calibrating.calibration import calibrate as measure
    from edgebench.cli.progress import make_progress

    kind, size_bytes = parse_swap(swap)
    progress = make_progress()
    try:
        made, path = measure(CalibrationOptions(results, device, kind, size_bytes), progress)
    finally:
        progress.close()
    figures, why_not = _draw(made, path.parent)
    for warning in (*made.warnings, *why_not):
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        click.echo(json.dumps({**made.to_json(), "path": str(path)}))
        return
    _print(made)
    click.echo(f"calibration: {path}")
    for figure in figures:
        click.echo(f"figure: {figure}")
    click.echo(f"next: edgebench run quickstart --device {made.device} --results {results}")


def parse_swap(text: str) -> tuple[str, int | None]:
    """Kind and size of ``"2G"``, ``"zram:1G"``, ``"system"`` or ``"none"``.

    Raises:
        UsageError: none of these.
    """
    if text in ("none", "system"):
        return text, None
    kind, _, size = text.rpartition(":")
    if kind not in ("", "file", "zram"):
        raise UsageError(f"no swap of kind {kind!r}", remedy=_SWAP_REMEDY)
    try:
        size_bytes = parse_size(size)
    except UsageError:
        size_bytes = None
    if size_bytes is None:
        raise UsageError(f"{text!r} is no swap", remedy=_SWAP_REMEDY)
    return kind or "file", size_bytes


def _draw(made: Calibration, folder: Path) -> tuple[list[Path], list[str]]:
    """The figure's PNG; without the libraries for it, why there is none."""
    try:
        from edgebench.figures.calibration import draw
    except ModuleNotFoundError as error:
        return [], [f"no figure: {error.name} is missing (pip install 'edgebench[plot]')"]
    try:
        return [path for path in draw(made, folder) if path.suffix == ".png"], []
    except EdgebenchError as error:
        return [], [f"no figure: {error.what}"]


def _print(made: Calibration) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 140)
    repeats = made.fault_s.repeats
    console.print(f"{made.device}, swap {made.swap_kind}, {repeats} repeats", style="bold")
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("constant", no_wrap=True)
    for title in ("median", "lowest", "highest"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("what it is")
    for row in _rows(made):
        table.add_row(*row)
    console.print(table)


def _rows(made: Calibration) -> Iterator[list[str]]:
    for name, meaning in MEANINGS.items():
        found: Constant | None = getattr(made, name)
        values = ["-"] * 3
        if found:
            values = [_words(v, found.unit) for v in (found.value, found.low, found.high)]
        yield [name, *values, meaning]


def _words(value: float, unit: str) -> str:
    if unit == "bytes/s":
        return f"{format_size(value)}/s"
    if unit == "bytes":
        return format_size(value)
    if unit == "s":
        return format_duration(value) if value >= 1e-5 else f"{value * 1e6:.2f} µs"
    return f"{value:.2f}" if unit == "share" else f"{value:.1f} {unit}"
