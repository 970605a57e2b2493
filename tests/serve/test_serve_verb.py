"""`edgebench serve`: starts, says where, and ends when told to."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from click.testing import CliRunner

from edgebench.cli.serve import serve
from edgebench.errors import MachineError


@contextmanager
def running(root: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The verb as a program of its own, and the address it printed."""
    command = [sys.executable, "-m", "edgebench", "serve", str(root), "--port", "0", "--json"]
    with subprocess.Popen(
        [*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        try:
            yield process, json.loads(process.stdout.readline())["address"]
        finally:
            process.kill()


def status_of(address: str) -> int:
    """What a plain GET of that address answers."""
    parts = urlsplit(address)
    assert parts.hostname
    connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=30)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}")
        return connection.getresponse().status
    finally:
        connection.close()


def test_it_serves_and_ends_on_ctrl_c_with_a_browser_connected(tmp_path: Path):
    """It goes within seconds, quietly, though a stream has no end and a question is under way."""
    with running(tmp_path / "results") as (process, address):
        assert status_of(address) == 200
        parts = urlsplit(address)
        stream = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=30)
        stream.request("GET", "/api/live")
        assert stream.getresponse().readline() == b"event: whole\n"
        asked = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=30)
        asked.request("GET", "/api/form")
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        assert time.monotonic() - began < 20
        assert process.returncode == 130
        assert "Traceback" not in said
        stream.close()
        asked.close()


def test_another_address_asks_for_a_token(tmp_path: Path):
    """What it prints opens the page; without the token nothing opens."""
    with running(tmp_path, "--host", "0.0.0.0") as (_, address):
        assert "?token=" in address
        assert status_of(address) == 303
        assert status_of(address.partition("?")[0]) == 401


def test_a_taken_port_is_said(tmp_path: Path):
    """One sentence with the remedy, no traceback."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(serve, [str(tmp_path), "--port", port])
    assert isinstance(done.exception, MachineError)
    assert "--port" in str(done.exception)


def test_without_its_extra_it_says_what_to_install(tmp_path: Path, monkeypatch):
    """The command to type, no traceback."""
    monkeypatch.setitem(sys.modules, "starlette", None)
    done = CliRunner().invoke(serve, [str(tmp_path)])
    assert isinstance(done.exception, MachineError)
    assert "edgebench[serve]" in str(done.exception)


def test_the_server_holds_nothing_large():
    """Neither pydantic nor numpy nor pandas: what needs them is a process that ends."""
    code = "import sys, edgebench.serve.app; print(*{n.split('.')[0] for n in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"pydantic", "numpy", "pandas", "torch", "rich"}
