"""The application and the server: addresses, the page's own files, access rules, live stream."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from edgebench.errors import EdgebenchError, MachineError
from edgebench.serve.helper_process import HelperProcess
from edgebench.serve.job_queue import JobQueue
from edgebench.serve.live import LiveStream
from edgebench.serve.routes import Endpoints
from edgebench.serve.security import AccessMiddleware, AccessRules
from edgebench.serve.sweep_answers import SweepAnswers

if TYPE_CHECKING:
    import uvicorn

STATIC = Path(__file__).with_name("static")
_TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript"}
_TYPES |= {".svg": "image/svg+xml", ".txt": "text/plain"}
#: When the server ends, open streams are cut off after this time.
_SHUTDOWN_S = 1


def make_app(root: Path, rules: AccessRules, files: Path | None = None) -> Starlette:
    """The application over the results below ``root``; the form offers the files in ``files``."""
    queue, helper, quick = JobQueue(root), HelperProcess(), HelperProcess()
    live = LiveStream(root, queue)
    answers = SweepAnswers(root, quick, helper)
    endpoints = Endpoints(root, queue, live, helper, answers, files)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(live.run()), asyncio.create_task(_prepare(endpoints))]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            endpoints.reader.shutdown(wait=False, cancel_futures=True)

    app = Starlette(
        routes=[*_file_routes(), *endpoints.routes()],
        middleware=[Middleware(AccessMiddleware, rules=rules)],
        lifespan=lifespan,
    )
    app.state.live, app.state.helpers = live, (quick, helper)
    return app


async def _prepare(endpoints: Endpoints) -> None:
    """Make what a browser shows first: the newest answer, then the form."""
    # Why it can't be made is answered when it is asked for.
    with contextlib.suppress(EdgebenchError, OSError):
        await endpoints.answers.answer("")
    with contextlib.suppress(EdgebenchError):
        await endpoints.make_form()


def _file_routes() -> list[Route]:
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
    """A socket to serve on; port 0 takes any free one.

    Raises:
        MachineError: the address can't be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise MachineError(
            f"can't serve on {host}, port {port}: {error.strerror or error}",
            remedy="stop the program that uses the port, or choose another: --port 8266",
        ) from None


def make_server(app: Starlette) -> uvicorn.Server:
    """The server, to be run on a socket of :func:`open_socket`."""
    import uvicorn

    class Server(uvicorn.Server):
        """Ends streams and helper processes first: neither end soon by themselves."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.state.live.close()
            for helper in app.state.helpers:
                helper.close()
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
            timeout_graceful_shutdown=_SHUTDOWN_S,
            ws="none",
        )
    )
