"""A measured sweep played back, as ``watch --replay`` shows it: in the terminal or on the page."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgebench.cli.output import print_answer, print_lines, print_next, shown_path
from edgebench.extras import need
from edgebench.units import format_duration, parse_duration

if TYPE_CHECKING:
    from edgebench.results.sweep_reader import Sweep

_ENDED = "The sweep is played back; the page stays until Ctrl-C."


def play_back(results: Path | None, seconds: str, port: int | None) -> None:
    """Play back a sweep that was measured earlier: nothing runs, and no root is needed.

    Args:
        results: a sweep's folder, or one of several: then the newest. None: the sweep that
            edgebench brings along.
        seconds: how long it takes, as ``25s``.
        port: of the page on which it is shown; None: in the terminal.

    Raises:
        ResultsError: no results there.
        UsageError: ``seconds`` is no duration.
    """
    from edgebench.results.results import latest, load
    from edgebench.run.replay import SHIPPED, measured_s

    sweep = load(latest(results or SHIPPED)).sweeps[0]
    whole_s = parse_duration(seconds)
    took = format_duration(measured_s(sweep))
    click.echo(
        f"playing back {len(sweep.records)} trials measured on {sweep.device}: {took} in "
        f"{format_duration(whole_s)}",
        err=True,
    )
    if port is None:
        _in_terminal(sweep, whole_s)
    else:
        _on_page(sweep, whole_s, port)
    print_next("edgebench minimum -- python3 train.py  (your own program)")


def _in_terminal(sweep: Sweep, seconds: float) -> None:
    """In the block that ``run`` shows, with the answer that ``run`` ends with."""
    from edgebench.cli.progress import shown_progress
    from edgebench.cli.run_output import run_answer
    from edgebench.run.replay import replay

    with shown_progress() as progress:
        replay(sweep, progress, seconds)
    print_answer(run_answer(sweep.path))
    print_lines(["", f"results: {shown_path(sweep.path)}"])


def _on_page(sweep: Sweep, seconds: float, port: int) -> None:
    """In a folder of its own, which the page follows as it follows a sweep that runs."""
    need("starlette", "uvicorn")
    from edgebench.errors import EdgebenchError
    from edgebench.run.replay import replay_into
    from edgebench.run.scratch import scratch_folder
    from edgebench.serve.app import make_app, make_server, open_socket
    from edgebench.serve.job import JobFiles
    from edgebench.serve.security import AccessRules
    from edgebench.serve.tokens import new_token

    host, token = "127.0.0.1", new_token()
    with scratch_folder() as folder, scratch_folder() as jobs:
        server = make_server(make_app(JobFiles(folder, jobs), AccessRules(host, token)))

        def played() -> None:
            # The folder is gone if the page was ended before.
            with contextlib.suppress(OSError, EdgebenchError):
                replay_into(sweep, folder, seconds)
                click.echo(_ENDED, err=True)

        with open_socket(host, port) as sock:
            click.echo(f"http://{host}:{sock.getsockname()[1]}/?token={token}")
            threading.Thread(target=played, daemon=True).start()
            server.run(sockets=[sock])
