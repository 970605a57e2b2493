"""`edgebench serve`: starts, says where, and ends when told to."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from edgebench.cgroups.leftovers import state_folder
from edgebench.cli.serve import serve
from edgebench.errors import MachineError, UsageError
from edgebench.serve.tokens import token_file


@contextmanager
def running(root: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The verb as a program of its own, and the address it printed."""
    command = [sys.executable, "-m", "edgebench", "serve", str(root), "--port", "0", "--json"]
    with subprocess.Popen(
        [*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        try:
            line = process.stdout.readline()
            assert line, process.stderr and process.stderr.read()
            yield process, json.loads(line)["address"]
        finally:
            process.terminate()


def bearer(address: str) -> dict[str, str]:
    """The header of a script that was given the address."""
    return {"Authorization": f"Bearer {address.partition('?token=')[2]}"}


def token_files(address: str) -> list[Path]:
    """The files that hold the token of that server."""
    return list(state_folder().glob(f"serve-{urlsplit(address).port}.*"))


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
        parts = urlsplit(address)
        stream = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=30)
        stream.request("GET", "/api/live", headers=bearer(address))
        assert stream.getresponse().readline() == b"event: state\n"
        asked = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=30)
        asked.request("GET", "/api/form", headers=bearer(address))
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        assert time.monotonic() - began < 20
        assert process.returncode == 130
        assert "Traceback" not in said
        stream.close()
        asked.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_it_asks_for_a_token(tmp_path: Path, host: str):
    """What it prints opens the page; without the token nothing opens, on loopback neither."""
    with running(tmp_path, "--host", host) as (_, address):
        assert "?token=" in address
        assert status_of(address) == 303
        assert status_of(address.partition("?")[0]) == 401


@pytest.mark.promise("The token's file is 0600, and removed when the server ends, on any signal.")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_tokens_file_is_its_owners_and_goes(tmp_path: Path, end: signal.Signals):
    """It is 0600 in a folder of 0700, holds what opens the page, and is gone however it ends."""
    with running(tmp_path) as (process, address):
        (file,) = token_files(address)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert address.endswith(f"/?token={file.read_text().strip()}")
        process.send_signal(end)
        _, said = process.communicate(timeout=30)
        assert "Traceback" not in said
        assert token_files(address) == []


def test_a_killed_servers_file_is_replaced(tmp_path: Path):
    """Whatever lies there, a link too: the next server on that port puts its own in its place."""
    target = tmp_path / "target"
    target.write_text("of somebody else")
    path = state_folder() / "serve-1.token"
    path.unlink(missing_ok=True)
    path.symlink_to(target)
    with token_file(1, "new") as file:
        assert (file, file.read_text(), file.is_symlink()) == (path, "new\n", False)
    assert not path.exists()
    assert target.read_text() == "of somebody else"


@pytest.mark.promise("The token's file is 0600, and removed when the server ends, on any signal.")
def test_a_killed_servers_file_goes_with_the_next_start(tmp_path: Path):
    """SIGKILL leaves it; the next server, on any port, takes it away, and no living one's."""
    with running(tmp_path) as (living, of_living), running(tmp_path) as (killed, of_killed):
        killed.kill()
        killed.wait(30)
        assert token_files(of_killed)
        with running(tmp_path):
            assert token_files(of_killed) == []
            assert token_files(of_living)
        assert living.poll() is None


def test_anothers_file_is_left_alone(tmp_path: Path):
    """A server that ends takes away its own file, not that of one which took its port over."""
    with token_file(1, "first") as file:
        file.unlink()
        file.write_text("second")
    assert file.read_text() == "second"
    file.unlink()


@pytest.mark.promise(
    "Every address of the page, its files and the live stream need the token, for other users "
    "of the machine too."
)
@pytest.mark.root
def test_another_local_user_is_shut_out(tmp_path: Path):
    """Who has another user id reaches the address, gets 401 everywhere, and can't read the file."""
    with running(tmp_path) as (_, address):
        (file,) = token_files(address)
        page = address.partition("?")[0]
        seen = as_nobody(lambda: [status_of(page), status_of(f"{page}api/live"), can_read(file)])
        assert seen == [401, 401, False]
        assert status_of(address) == 303


def as_nobody(act: Callable[[], Any]) -> Any:
    """What it comes to in a process of the user nobody."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            os.write(writing, json.dumps(act()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    told = os.read(reading, 65536)
    os.close(reading)
    os.waitpid(child, 0)
    return json.loads(told)


def can_read(path: Path) -> bool:
    """Whether that file opens."""
    try:
        path.read_text()
    except PermissionError:
        return False
    return True


def test_without_a_token_it_warns(tmp_path: Path):
    """--no-token opens the page to every local user, says so, and leaves no file."""
    with running(tmp_path, "--no-token") as (process, address):
        assert "?" not in address
        assert status_of(address) == 200
        assert token_files(address) == []
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
        assert "every user of this machine" in said


def test_the_network_always_needs_a_token(tmp_path: Path):
    """--no-token is refused on an address that others reach."""
    done = CliRunner().invoke(serve, [str(tmp_path), "--host", "0.0.0.0", "--no-token"])
    assert isinstance(done.exception, UsageError)
    assert "--no-token" in str(done.exception)


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
