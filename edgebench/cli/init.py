"""``edgebench init``: a commented scenario for a network or a command."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import click

from edgebench.cli.options import NetworkOrCommand, offer_networks
from edgebench.cli.output import print_headline, print_next, shown_path, typed_path
from edgebench.errors import UsageError
from edgebench.processes import find_program

_KINDS = ("inference", "training", "command")


@click.command(cls=NetworkOrCommand, options_metavar="[OPTIONS]")
@click.argument(
    "network", required=False, metavar="NETWORK | -- COMMAND", shell_complete=offer_networks
)
@click.option("--kind", type=click.Choice(_KINDS), help="What to do with it [default: inference].")
@click.option(
    "--memory",
    metavar="LIMIT",
    multiple=True,
    help="Limit, as 200M or 75% (of what it needs); may be repeated [default: 85%, 70%, 55% "
    "and 40%].",
)
@click.option(
    "--swap",
    metavar="SWAP",
    help="Swap it may use: none, a size as 2G, zram:1G, or system [default: 2G as root, else "
    "system].",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write [default: named after NETWORK or COMMAND].",
)
@click.pass_context
def init(context: click.Context, /, network: str | None, out: Path | None, **flags: Any) -> None:
    """Write a scenario for NETWORK or COMMAND, with a comment on each key, ready to run.

    An existing file is never overwritten.
    """
    from edgebench.scenario.new_scenario import NEW_LIMITS, NEW_SWAP, NewScenario, scenario_text
    from edgebench.scenario.points import points

    command = context.meta.get("command", ())
    swap = flags["swap"] or (NEW_SWAP if os.geteuid() == 0 else "system")
    _check_words(network, command, flags["kind"])
    kind = "command" if command else flags["kind"] or "inference"
    wanted = NewScenario(kind, network, command, flags["memory"] or NEW_LIMITS, swap)
    file = out or Path(f"{wanted.stem}.toml")
    if file.exists():
        raise _exists(file)
    text, scenario = scenario_text(wanted, file)
    _write(file, text)
    count = len(points(scenario))
    trials = f"{count} points, {count * scenario.repeats} trials"
    print_headline(f"Wrote {shown_path(file)}: {trials}. Each key has its meaning beside it.")
    print_next(f"edgebench run {typed_path(file)}")


def _check_words(network: str | None, command: tuple[str, ...], kind: str | None) -> None:
    """Check that they name one network, or one command.

    Raises:
        UsageError: neither or both are given, or a kind that doesn't fit.
    """
    if network and command:
        raise UsageError(
            f"both a network ({network}) and a command ({shlex.join(command)}) are given",
            remedy=f"edgebench init {network}, or: edgebench init -- {shlex.join(command)}",
        )
    if not network and not command:
        raise UsageError(
            "nothing to run is given",
            remedy="edgebench init resnet18, or: edgebench init -- python3 train.py",
        )
    if command and kind not in (None, "command"):
        raise UsageError(f"a command is of the kind command, not {kind}", remedy="leave out --kind")
    is_program = (
        network is not None
        and ":" not in network
        and (Path(network).suffix in (".py", ".sh") or find_program(network) is not None)
    )
    if network and (kind == "command" or is_program):
        raise UsageError(
            f"{network} is read as a network", remedy=f"edgebench init -- {shlex.quote(network)}"
        )


def _exists(file: Path) -> UsageError:
    name = shlex.quote(os.fspath(file))
    return UsageError(
        f"{file} exists already and is not overwritten",
        remedy=f"name another with --out, or see what it runs: edgebench run {name} --dry-run",
    )


def _write(file: Path, text: str) -> None:
    """Write a file that isn't there yet, whole or not at all.

    Raises:
        UsageError: meanwhile there is one.
    """
    from edgebench.safe_files import open_file, remove_file

    try:
        fd = open_file(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        raise _exists(file) from None
    try:
        with os.fdopen(fd, "wb") as opened:
            opened.write(text.encode())
    except OSError:
        remove_file(file)
        raise
