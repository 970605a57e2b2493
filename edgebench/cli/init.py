"""``edgebench init``: a commented scenario for a network or a command."""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgebench.cli.options import NetworkOrCommand, offer_networks
from edgebench.cli.output import print_headline, print_next, shown_path, typed_path
from edgebench.errors import UsageError
from edgebench.processes import find_program

if TYPE_CHECKING:
    from edgebench.scenario.new_scenario import NewScenario

_KINDS = ("inference", "training", "command")


def _print_schema(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if not asked:
        return
    from edgebench.scenario.new_scenario import scenario_schema

    click.echo(json.dumps(scenario_schema(), indent=2, ensure_ascii=False))
    context.exit()


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
@click.option(
    "--schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
    help="Print the JSON Schema of scenarios, for an editor, and exit.",
)
@click.pass_context
def init(context: click.Context, /, network: str | None, out: Path | None, **flags: Any) -> None:
    """Write a scenario for NETWORK or COMMAND, with a comment on each key, ready to run.

    On a terminal, what no flag says is asked, with a default for each. An existing file is never
    overwritten.
    """
    from edgebench.scenario.new_scenario import scenario_text
    from edgebench.scenario.points import points

    command = context.meta.get("command", ())
    asks = sys.stdin.isatty() and sys.stderr.isatty()
    if not network and not command and asks:
        network, command = _asked_for_workload()
    wanted = _wanted(network, command, flags["kind"])
    wanted = _with_limits(wanted, flags["memory"], flags["swap"], asks)
    file = out or Path(f"{wanted.stem}.toml")
    if file.exists():
        raise _exists(file)
    text, scenario = scenario_text(wanted, file)
    _write(file, text)
    count = len(points(scenario))
    trials = f"{count} points, {count * scenario.repeats} trials"
    print_headline(f"Wrote {shown_path(file)}: {trials}. Each key has its meaning beside it.")
    print_next(f"edgebench run {typed_path(file)}")


def _asked_for_workload() -> tuple[str | None, tuple[str, ...]]:
    """Return what to run: one word is a network, several are a command."""
    words = shlex.split(click.prompt("Network (resnet18), or command (python3 train.py)", err=True))
    return (words[0], ()) if len(words) == 1 else (None, tuple(words))


def _wanted(network: str | None, command: tuple[str, ...], kind: str | None) -> NewScenario:
    from edgebench.scenario.new_scenario import NewScenario

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
    if network and (kind == "command" or _is_program(network)):
        raise UsageError(
            f"{network} is read as a network", remedy=f"edgebench init -- {shlex.quote(network)}"
        )
    if command:
        return NewScenario("command", command=command)
    return NewScenario(kind or "inference", network)


def _is_program(word: str) -> bool:
    script = Path(word).suffix in (".py", ".sh")
    return ":" not in word and (script or find_program(word) is not None)


def _with_limits(
    wanted: NewScenario, memory: tuple[str, ...], swap: str | None, asks: bool
) -> NewScenario:
    """Limits and swap as flags say; else as answered; else the usual ones."""
    if not memory:
        memory = tuple(wanted.memory)
        if asks:
            words = "Memory limits (sizes, or shares of what it needs)"
            answer = click.prompt(words, ", ".join(memory), err=True)
            memory = tuple(answer.replace(",", " ").split())
    if swap is None:
        usual = wanted.swap if os.geteuid() == 0 else "system"
        words = "Swap (none, a size, zram:1G, system)"
        swap = click.prompt(words, usual, err=True) if asks else usual
    return replace(wanted, memory=memory, swap=str(swap))


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
