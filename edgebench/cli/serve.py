"""``edgebench serve``: the page in a browser."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import click

from edgebench.cli.options import json_option
from edgebench.cli.output import print_json, print_next
from edgebench.errors import UsageError
from edgebench.extras import need


@click.command()
@click.argument(
    "results", type=click.Path(file_okay=False, path_type=Path), default=Path("results")
)
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", help="Address to serve on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8642,
    help="Port to serve on; 0: any free port.",
)
@click.option(
    "--files",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of data sets, checkpoints, networks and code that the form may name; Python files "
    "directly in it may be imported.",
)
@json_option("the address")
def serve(results: Path, host: str, port: int, files: Path | None, as_json: bool) -> None:
    """Serve a page that starts sweeps, follows them live and shows all results in RESULTS.

    The printed address contains a token, without which the page can't be opened. A sweep that was
    started from the page continues when the server ends.
    """
    need("starlette", "uvicorn")
    from edgebench.serve.app import make_app, make_server, new_token, open_socket, token_file
    from edgebench.serve.live import PageSweep, page_folder

    if not host.strip():
        raise UsageError("--host is empty", remedy="leave it out to serve on this machine only")
    page_sweep, token = PageSweep(results.resolve(), page_folder(results)), new_token()
    app = make_app(page_sweep, token, host, files and files.resolve())
    with open_socket(host, port) as sock:
        port = sock.getsockname()[1]
        with token_file(port, token) as file:
            # uvicorn sets logging up anew, which closes what another library's log wrote to.
            server = make_server(app)
            if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
                # It ends in order on this signal.
                signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
            _print_address(host, port, token, file, as_json)
            server.run(sockets=[sock])


def _print_address(host: str, port: int, token: str, file: Path, as_json: bool) -> None:
    from edgebench.serve.app import is_loopback

    # A browser can't open "every address", but the machine's name.
    named = socket.gethostname() if host in ("0.0.0.0", "::") else host  # noqa: S104
    shown = f"[{named}]" if ":" in named else named
    address = f"http://{shown}:{port}/#token={token}"
    if as_json:
        print_json({"address": address, "port": port, "token_file": file})
        return
    click.echo(f"open: {address}")
    click.echo(f"token: also in {file}, which only you can read", err=True)
    click.echo("Ctrl-C ends the server; a sweep that it started continues", err=True)
    if is_loopback(host):
        tunnel = f"ssh -L {port}:127.0.0.1:{port} this-machine"
        print_next(f"{tunnel}  (on your laptop; open the same address there)")
