"""A sweep for readers: ``report`` as one file, ``plot`` of its figures, ``serve`` as a page."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import click

from edgebench.cli.options import json_option, read_newest, results_argument, verbose_option
from edgebench.cli.output import (
    print_figures,
    print_headline,
    print_json,
    print_next,
    print_warnings,
    shown_path,
    typed_path,
)
from edgebench.errors import UsageError
from edgebench.installation import need
from edgebench.results.derived import write_derived, write_file


@click.command()
@results_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write [default: report.html in the sweep's folder].",
)
@click.option("--markdown", is_flag=True, help="Also write Markdown, with the figures beside it.")
@verbose_option("all limits and warnings")
@json_option("the files' paths")
def report(
    results: Path, output: Path | None, markdown: bool, verbose: bool, as_json: bool
) -> None:
    """Write a self-contained report of the newest sweep in RESULTS.

    RESULTS is a sweep's folder, or a folder of several. The report is one HTML file that opens
    offline and prints: tables, figures, the environment, and what is in doubt.
    """
    # Checked together, so that one command installs everything.
    need("jinja2", "pandas")
    from edgebench.cli.show import print_sweep
    from edgebench.report.builder import as_html, make_report, write_markdown

    loaded = read_newest(results)
    made = make_report(loaded)
    target = output or loaded.path / "report.html"
    paths = [write_file(target, as_html(made).encode())]
    paths += write_markdown(target.with_suffix(".md"), made) if markdown else []
    if output is None:
        # The figure to open first.
        first = [one for one in made.pictures if one.stem.startswith("slowdown")][:1]
        figures = loaded.path / "figures"
        paths = [*(write_derived(figures, f"{one.stem}.svg", one.svg) for one in first), *paths]
    if as_json:
        print_warnings([*loaded.warnings, *made.left_out])
        print_json({"path": loaded.path, "files": paths})
        return
    print_sweep(loaded, verbose=verbose)
    files = [path for path in paths if path.suffix != ".png"]
    for path in files:
        click.echo(f"{'figure' if path.suffix == '.svg' else 'report'}: {shown_path(path)}")
    print_warnings(made.left_out, None if verbose else "--verbose")
    print_next(f"edgebench plot {typed_path(loaded.path)}")


@click.command()
@results_argument
@click.option("--trial", metavar="ID", help="Draw only this trial's memory over time, as 0012.")
@click.option("--all", "every", is_flag=True, help="Draw all figures, not only the first six.")
@click.option("--phases", is_flag=True, help="Draw slowdown by phase: loading, executing, ….")
@json_option("the files' paths")
def plot(results: Path, trial: str | None, every: bool, phases: bool, as_json: bool) -> None:
    """Draw the newest sweep in RESULTS: a sweep's folder, or a folder of several.

    Each figure is written as PNG and SVG to figures/ in the sweep's folder. A figure that can't be
    drawn is named with the reason.
    """
    from edgebench.report.figures.gallery import WrittenFigures, draw_all, draw_trial

    loaded = read_newest(results)
    if trial is None:
        gallery = draw_all(loaded, every=every, phases=phases)
    else:
        gallery = WrittenFigures(draw_trial(loaded, trial), [])
    if as_json:
        print_warnings((*loaded.warnings, *gallery.left_out))
        print_json({"path": loaded.path, "files": gallery.paths})
        return
    count = sum(path.suffix == ".png" for path in gallery.paths)
    drawn = "1 figure" if count == 1 else f"{count} figures"
    print_headline(f"{drawn} of {loaded.path.name}, each as PNG and SVG")
    print_figures(gallery.paths)
    print_warnings((*loaded.warnings, *gallery.left_out), "--json")
    print_next(f"edgebench report {typed_path(loaded.path)}")


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
    from edgebench.serve.app import (
        is_loopback,
        make_app,
        make_server,
        new_token,
        open_socket,
        token_file,
    )
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
            # A browser can't open "every address", but the machine's name.
            named = socket.gethostname() if host in ("0.0.0.0", "::") else host  # noqa: S104
            address = f"http://{f'[{named}]' if ':' in named else named}:{port}/#token={token}"
            if as_json:
                print_json({"address": address, "port": port, "token_file": file})
            else:
                click.echo(f"open: {address}")
                click.echo(f"token: also in {file}, which only you can read", err=True)
                click.echo("Ctrl-C ends the server; a sweep that it started continues", err=True)
                if is_loopback(host):
                    tunnel = f"ssh -L {port}:127.0.0.1:{port} this-machine"
                    print_next(f"{tunnel}  (on your laptop; open the same address there)")
            server.run(sockets=[sock])
