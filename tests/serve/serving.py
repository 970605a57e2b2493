"""A real server on a real socket, in a thread of the tests' own process."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.serve.app import make_app, make_server, open_socket
from edgebench.serve.live import Hub
from edgebench.serve.security import Guard


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        """The body's JSON."""
        return json.loads(self.body)


@dataclass
class Served:
    """A server that runs, and how to talk to it."""

    port: int
    hub: Hub
    root: Path

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, **headers: str) -> Answer:
        """Ask for something; headers' names have ``_`` for ``-``."""
        return self._ask("GET", path, None, headers)

    def post(self, path: str, data: Any = None, **headers: str) -> Answer:
        """Send JSON as the page does."""
        own = {"Origin": self.address, "Content_Type": "application/json"}
        return self._ask("POST", path, json.dumps(data or {}).encode(), {**own, **headers})

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            return Answer(
                answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
            )
        finally:
            connection.close()

    @contextlib.contextmanager
    def stream(self) -> Iterator[Iterator[tuple[str, Any]]]:
        """The live stream's events: kind and data."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", "/api/live")
            yield _events(connection.getresponse())
        finally:
            connection.close()


def _events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    kind = ""
    while line := answer.readline().decode().rstrip("\n"):
        kind = line.removeprefix("event: ")
        data = answer.readline().decode().removeprefix("data: ")
        answer.readline()
        yield kind, json.loads(data)


@contextlib.contextmanager
def serving(root: Path, guard: Guard | None = None) -> Iterator[Served]:
    """Serve the results below ``root`` while the block runs."""
    app = make_app(root, guard or Guard("127.0.0.1"))
    server = make_server(app)
    with open_socket("127.0.0.1", 0) as sock:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.02)
            yield Served(sock.getsockname()[1], app.state.hub, root)
        finally:
            server.should_exit = True
            thread.join(30)


def wait_for(condition: Any, patience_s: float = 60.0) -> Any:
    """Wait until something is so; what it was."""
    ends = time.monotonic() + patience_s
    while not (found := condition()):
        assert time.monotonic() < ends, "it did not come to pass"
        time.sleep(0.1)
    return found
