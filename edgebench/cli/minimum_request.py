"""From the flags of ``edgebench minimum`` to what is searched for."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from edgebench.cli import options
from edgebench.errors import UsageError
from edgebench.processes import find_program

if TYPE_CHECKING:
    from edgebench.run.minimum_requests import MinimumRequest, ProgramRequest

#: What only a network has.
_NETWORK_KEYS = ("phase", *options.NETWORK_KEYS)


class NetworkOrProgram(options.NetworkOrCommand):
    """Says where ``--`` was forgotten before a program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            words = ctx.meta["words"]
            program = next((n for n, word in enumerate(words) if find_program(word)), None)
            if "command" in ctx.meta or program is None:
                raise
            what = f"{error.option_name} is no option of edgebench minimum"
            raise UsageError(what, remedy=with_dashes(tuple(words[program:]))) from None


def minimum_request(
    context: click.Context, network: tuple[str, ...], settings: dict[str, Any]
) -> MinimumRequest | ProgramRequest:
    """What is searched for.

    Raises:
        UsageError: neither a network nor a program, or a flag that doesn't fit it.
    """
    from edgebench.run.minimum_requests import PROGRAM_KEYS, MinimumRequest, ProgramRequest

    command: tuple[str, ...] | None = context.meta.get("command")
    if command is None and len(network) > 1:
        raise UsageError(f"{' '.join(network)!r} is not one network", remedy=with_dashes(network))
    if (command is not None and network) or not (command or network):
        raise UsageError(
            "name a network, or a program after --",
            remedy="edgebench minimum -- python3 train.py",
        )
    refused = _NETWORK_KEYS if command else PROGRAM_KEYS
    options.refuse_given(context, refused, "networks" if command else "programs (after --)")
    settings = {key: value for key, value in settings.items() if key not in refused}
    if not command:
        timeout = settings.pop("timeout")
        more = {"timeout": timeout} if timeout else {}
        return MinimumRequest(network=network[0], **settings, **more)
    reset = settings.pop("reset")
    return ProgramRequest(command, reset=reset or None, **settings)


def with_dashes(words: tuple[str, ...]) -> str:
    """The remedy where ``--`` was forgotten before a program."""
    return f"to measure a program: edgebench minimum -- {shlex.join(words)}"
