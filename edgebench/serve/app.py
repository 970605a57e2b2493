"""The server put together: the page's own files, the addresses, the guard, the live view."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from edgebench.errors import EdgebenchError, MachineError
from edgebench.serve.asking import Clerks
from edgebench.serve.live import Hub
from edgebench.serve.queue import Queue
from edgebench.serve.routes import Office
from edgebench.serve.security import Guard, Guarded

if TYPE_CHECKING:
    import uvicorn

STATIC = Path(__file__).with_name("static")
_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
#: Open streams are cut off so soon when the server ends.
_PARTING_S = 1


def make_app(root: Path, guard: Guard, files: Path | None = None) -> Starlette:
    """The application over the results below ``root``; the form offers what lies in ``files``."""
    queue = Queue(root)
    hub = Hub(root, queue)
    reader = ThreadPoolExecutor(1, thread_name_prefix="reader")

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        reading = asyncio.create_task(hub.run())
        forming = asyncio.create_task(_have_form(office))
        try:
            yield
        finally:
            reading.cancel()
            forming.cancel()
            reader.shutdown(wait=False, cancel_futures=True)

    clerks = Clerks()
    office = Office(root, queue, hub, clerks, reader, files)
    app = Starlette(
        routes=[*_page(), *office.routes()],
        middleware=[Middleware(Guarded, guard=guard)],
        lifespan=lifespan,
    )
    app.state.hub = hub
    app.state.clerks = clerks
    return app


async def _have_form(office: Office) -> None:
    # Who opens the form is told why there is none.
    with contextlib.suppress(EdgebenchError):
        await office.make_form()


def _page() -> list[Route]:
    """The page's files, held in memory: they are few and small."""
    files = [path for path in STATIC.rglob("*") if path.suffix in _TYPES]
    routes = [Route(f"/{path.relative_to(STATIC)}", _file(path)) for path in sorted(files)]
    return [Route("/", _file(STATIC / "index.html")), *routes]


def _file(path: Path) -> Callable[[Request], Awaitable[Response]]:
    data = path.read_bytes()
    tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
    headers = {"Cache-Control": "no-cache", "ETag": tag}

    async def send(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, media_type=_TYPES[path.suffix], headers=headers)

    return send


def open_socket(host: str, port: int) -> socket.socket:
    """A socket to serve on; port 0 takes any that is free.

    Raises:
        MachineError: the address can't be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise MachineError(
            f"can't serve on {host}, port {port}: {error.strerror or error}",
            remedy="end what has that port, or name another: --port 8266",
        ) from None


def make_server(app: Starlette) -> uvicorn.Server:
    """The server, to be run on a socket of :func:`open_socket`."""
    import uvicorn

    class Server(uvicorn.Server):
        """Lets browsers and clerks go first: a stream has no end, and a clerk thinks for long."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.state.hub.close()
            app.state.clerks.close()
            await super().shutdown(sockets)

    return Server(
        uvicorn.Config(
            app,
            access_log=False,
            http="h11",
            lifespan="on",
            log_level="warning",
            loop="asyncio",
            server_header=False,
            timeout_graceful_shutdown=_PARTING_S,
            ws="none",
        )
    )
