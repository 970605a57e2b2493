"""``edgebench serve``: the dashboard in a browser."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import click

from edgebench.errors import MachineError, UsageError

_REMEDY = "python3 -m pip install 'edgebench[serve]'"


@click.command(short_help="See it live in a browser: start, watch and compare sweeps.")
@click.argument(
    "results", type=click.Path(file_okay=False, path_type=Path), default=Path("results")
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to serve on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8265,
    show_default=True,
    help="Port to serve on; 0 takes any that is free.",
)
@click.option(
    "--files",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder whose data sets and checkpoints the form offers by name.",
)
@click.option("--token", "with_token", is_flag=True, help="Ask for a token on this machine too.")
@click.option("--json", "as_json", is_flag=True, help="Print the address as JSON on stdout.")
def serve(
    results: Path, host: str, port: int, files: Path | None, with_token: bool, as_json: bool
) -> None:
    """Serve a page over RESULTS: a form to run sweeps, the live view, all that was measured.

    On any other address than this machine's own the page opens with a token only. Sweeps that the
    page started go on when the server ends.
    """
    _need_libraries()
    from edgebench.serve.app import make_app, make_server, open_socket
    from edgebench.serve.security import Guard, is_loopback, new_token

    if not host.strip():
        raise UsageError("--host is empty", remedy="leave it out to serve on this machine only")
    token = new_token() if with_token or not is_loopback(host) else None
    server = make_server(make_app(results.resolve(), Guard(host, token), files and files.resolve()))
    with open_socket(host, port) as sock:
        _tell(host, sock.getsockname()[1], token, as_json)
        server.run(sockets=[sock])


def _need_libraries() -> None:
    try:
        import starlette
        import uvicorn
    except ModuleNotFoundError as error:
        raise MachineError(f"this needs {error.name}", remedy=_REMEDY) from None
    del starlette, uvicorn


def _tell(host: str, port: int, token: str | None, as_json: bool) -> None:
    # Every address of this machine: its name is one that a browser can go to.
    named = socket.gethostname() if host in ("0.0.0.0", "::") else host  # noqa: S104
    shown = f"[{named}]" if ":" in named else named
    address = f"http://{shown}:{port}/" + (f"?token={token}" if token else "")
    if as_json:
        click.echo(json.dumps({"address": address, "port": port}))
        return
    click.echo(f"open: {address}")
    if token is None:
        click.echo(f"next: ssh -L {port}:127.0.0.1:{port} this-machine    # from your laptop")
    click.echo("Ctrl-C ends the server; a sweep that it started goes on", err=True)
