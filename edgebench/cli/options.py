"""Options that several verbs share, in the same words."""

from __future__ import annotations

from pathlib import Path

import click

results_option = click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Folder that holds the results of all devices.",
)
device_option = click.option(
    "--device", help="Name of this device in the results folder [default: found out]."
)
swap_option = click.option(
    "--swap",
    default="none",
    show_default=True,
    help="Swap it may use: none, a size as 2G (a temporary swap file), zram:1G, or system.",
)
