"""The application and the server: addresses, the page's own files, access rules, live stream."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import signal
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from edgebench.errors import EdgebenchError, MachineError
from edgebench.serve.helper_process import HelperProcess
from edgebench.serve.job import JobFiles
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


def make_app(jobs: JobFiles, rules: AccessRules, files: Path | None = None) -> Starlette:
    """The application over the results of these jobs; the form offers the files in ``files``.

    Raises:
        UnsafePathError: others can write to the jobs' folder.
    """
    root, queue = jobs.root, JobQueue(jobs)
    helper, quick = HelperProcess(), HelperProcess()
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

    from edgebench.serve.connections import MOST_WAITING, LimitedConnection, limit_log

    class Server(uvicorn.Server):
        """Ends streams and helper processes first: neither end soon by themselves."""

        hung_up = False

        @contextlib.contextmanager
        def capture_signals(self) -> Generator[None, None, None]:
            """SIGHUP ends the server in order too, unless it is ignored (``nohup``)."""
            before = signal.getsignal(signal.SIGHUP)
            is_main = threading.current_thread() is threading.main_thread()
            if is_main and before != signal.SIG_IGN:
                signal.signal(signal.SIGHUP, self._hang_up)
            with super().capture_signals():
                yield
            if self.hung_up:
                signal.signal(signal.SIGHUP, before)
                signal.raise_signal(signal.SIGHUP)

        def _hang_up(self, signum: int, frame: FrameType | None) -> None:
            self.hung_up = self.should_exit = True

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            for one in sockets or ():
                # More may wait in the kernel than are accepted at once.
                one.listen(socket.SOMAXCONN)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.state.live.close()
            for helper in app.state.helpers:
                helper.close()
            await super().shutdown(sockets)

    config = uvicorn.Config(
        app,
        access_log=False,
        # So many connections are accepted at once, before one is closed again.
        backlog=MOST_WAITING,
        http=LimitedConnection,
        lifespan="on",
        log_level="warning",
        loop="asyncio",
        server_header=False,
        timeout_graceful_shutdown=_SHUTDOWN_S,
        ws="none",
    )
    limit_log()
    return Server(config)
