"""A real server on a real socket, in a thread of the tests' own process.

Its helper processes load large libraries for seconds each. Here they answer in this process, which
loads those once; ``helpers=True`` starts them.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette

from edgebench.serve.app import HelperProcess, make_app, make_server, open_socket
from edgebench.serve.helper_process import reply_to
from edgebench.serve.live import LiveStream, PageSweep

TOKEN = "a-token-that-nobody-guesses"
#: What the page sends with each request.
SHOWN = {"Authorization": f"Bearer {TOKEN}"}


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)


@dataclass
class Served:
    """A server that runs, and how to talk to it."""

    port: int
    live: LiveStream
    page_sweep: PageSweep
    app: Starlette
    server: uvicorn.Server

    @property
    def root(self) -> Path:
        return self.page_sweep.root

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, **headers: str) -> Answer:
        return self._ask("GET", path, None, headers)

    def post(self, path: str, data: Any = None, **headers: str) -> Answer:
        return self._ask("POST", path, json.dumps(data or {}).encode(), headers)

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            own = {**SHOWN, **headers}
            named = {name.replace("_", "-"): value for name, value in own.items()}
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            return Answer(
                answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
            )
        finally:
            connection.close()

    @contextlib.contextmanager
    def stream(self) -> Iterator[Iterator[tuple[str, Any]]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request("GET", "/api/live", headers=SHOWN)
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


def page_sweep_of(root: Path) -> PageSweep:
    return PageSweep(root, root.with_name(f"{root.name}-page"))


async def _reply_here(self: HelperProcess, request: dict[str, Any]) -> bytes:
    return await asyncio.get_running_loop().run_in_executor(None, reply_to, request)


@contextlib.contextmanager
def serving(root: Path, *, helpers: bool = False) -> Iterator[Served]:
    page_sweep = page_sweep_of(root)
    app = make_app(page_sweep, TOKEN)
    server = make_server(app)
    replied = HelperProcess._reply
    if not helpers:
        HelperProcess._reply = _reply_here  # type: ignore[method-assign]
    with open_socket("127.0.0.1", 0) as sock:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            wait_for(lambda: server.started)
            yield Served(sock.getsockname()[1], app.state.live, page_sweep, app, server)
        finally:
            server.should_exit = True
            thread.join(120)
            HelperProcess._reply = replied  # type: ignore[method-assign]
            # A sweep outlives its server; here the server's process lives on and must wait for it.
            if page_sweep._process:
                page_sweep._process.terminate()
                page_sweep._process.wait(120)


def wait_for(condition: Any, patience_s: float = 240.0) -> Any:
    ends = time.monotonic() + patience_s
    while not (found := condition()):
        assert time.monotonic() < ends, "it did not come to pass"
        time.sleep(0.02)
    return found
