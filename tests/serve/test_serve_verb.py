"""`edgebench serve`: starts, says where, and ends when told to."""

from __future__ import annotations

import json
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from edgebench.cgroups.leftovers import clear_leftovers, state_folder
from edgebench.cli.report import serve
from edgebench.errors import MachineError
from edgebench.serve.app import token_file


@contextmanager
def running(root: Path, *words: str, **options: Any) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "edgebench", "serve", str(root), "--port", "0", "--json"]
    with subprocess.Popen(
        [*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    ) as process:
        assert process.stdout
        try:
            line = process.stdout.readline()
            assert line, process.stderr and process.stderr.read()
            yield process, json.loads(line)["address"]
        finally:
            process.terminate()


def ended(process: subprocess.Popen[str], by: signal.Signals) -> str:
    process.send_signal(by)
    _, said = process.communicate(timeout=120)
    assert "Traceback" not in said
    return said


def bearer(address: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {address.partition('#token=')[2]}"}


def token_files(address: str) -> list[Path]:
    return list(state_folder().glob(f"serve-{urlsplit(address).port}.*"))


def status_of(address: str) -> int:
    parts = urlsplit(address)
    assert parts.hostname
    connection = HTTPConnection("127.0.0.1", parts.port, timeout=120)
    try:
        connection.request("GET", "/api/sweeps", headers=bearer(address))
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.process
@pytest.mark.promise("The token's file is 0600, and removed when the server ends, on any signal.")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGHUP])
def test_it_serves_and_ends_in_order(tmp_path: Path, end: signal.Signals):
    with running(tmp_path / "results", "--host", "0.0.0.0") as (process, address):
        (file,) = token_files(address)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert address.endswith(f"/#token={file.read_text().strip()}")
        assert status_of(address) == 200
        assert status_of(address.partition("#")[0]) == 401
        parts = urlsplit(address)
        stream, asked = (HTTPConnection("127.0.0.1", parts.port, timeout=120) for _ in range(2))
        stream.request("GET", "/api/live", headers=bearer(address))
        assert stream.getresponse().readline() == b"event: state\n"
        asked.request("GET", "/api/form", headers=bearer(address))
        helpers = children(process.pid)
        ended(process, end)
        assert process.returncode == {signal.SIGINT: 130, signal.SIGHUP: 143}[end]
        assert token_files(address) == []
        assert not any(map(is_there, helpers))
        stream.close()
        asked.close()


def children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def is_there(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.process
def test_under_nohup_it_stays(tmp_path: Path):
    ignored = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
    with running(tmp_path, **ignored) as (process, address):
        process.send_signal(signal.SIGHUP)
        assert status_of(address) == 200


def test_a_killed_servers_file_is_replaced(tmp_path: Path):
    target = tmp_path / "target"
    target.write_text("of somebody else")
    path = state_folder() / "serve-1.token"
    path.unlink(missing_ok=True)
    path.symlink_to(target)
    with token_file(1, "new") as file:
        assert (file, file.read_text(), file.is_symlink()) == (path, "new\n", False)
    assert not path.exists()
    assert target.read_text() == "of somebody else"


@pytest.mark.process
@pytest.mark.root
@pytest.mark.promise(
    "Every address but the page's own files needs the token, for other users of the machine too."
)
@pytest.mark.promise("The token's file is 0600, and removed when the server ends, on any signal.")
def test_another_user_is_shut_out_and_a_killed_servers_file_goes(tmp_path: Path):
    with running(tmp_path) as (process, address):
        (file,) = token_files(address)
        assert status_of(address.partition("#")[0]) == 401
        nobody: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []}
        assert subprocess.run(["cat", file], capture_output=True, **nobody).returncode == 1
        assert status_of(address) == 200
        clear_leftovers()
        assert token_files(address)
        process.kill()
        process.wait(120)
    assert token_files(address)
    clear_leftovers()
    assert token_files(address) == []


def test_anothers_file_is_left_alone(tmp_path: Path):
    with token_file(1, "first") as file:
        file.unlink()
        file.write_text("second")
    assert file.read_text() == "second"
    file.unlink()


def test_a_taken_port_is_said(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(serve, [str(tmp_path), "--port", port])
    assert isinstance(done.exception, MachineError)
    assert "--port" in str(done.exception)
