"""The server: which requests it lets in, and what each address answers.

Every user of a machine reaches its loopback address, and the server acts with the rights of the
user who started it. So every address but the page's own files needs the token, in a header that no
page of another site can make a browser send. A browser sends cookies to all ports of a host, also
to those of other users: there are none.

The server itself stays small: what needs large libraries is answered by
:mod:`edgebench.serve.helper_process`, and kept until there are more trials.
Errors that the user can fix are sent as ``{"error": …}``.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hmac
import ipaddress
import json
import os
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edgebench.cgroups.leftovers import clear_token_files, state_folder
from edgebench.errors import EdgebenchError, MachineError, ResultsError
from edgebench.processes import own_program
from edgebench.safe_files import remove_empty_folder, remove_file, write_whole
from edgebench.serve.history import (
    find_sweep,
    recorded_version,
    sweep_names,
    sweep_rows,
    trial_detail,
    trial_rows,
    trials_csv,
)
from edgebench.serve.live import MOST_BROWSERS, LiveStream, PageSweep

if TYPE_CHECKING:
    import uvicorn

#: Authorization schemes for the token in a script's header.
_SCHEMES = ("bearer", "token")
_TEXT = """\
The token is missing or wrong. It keeps other users of this machine from starting sweeps.
In a browser: open the address that 'edgebench serve' printed; it ends in #token=…
In a script: send the header 'Authorization: Bearer …'; 'edgebench serve' printed the token's file.
"""
#: Of every answer.
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that address."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return None


def knows_host(served: str, header: str) -> bool:
    """Whether a Host header names the server on an address by a name that is its own.

    Another name can be made to resolve to this machine (DNS rebinding).
    """
    name, _, port = header.rpartition(":")
    name = (name if name and port.isdigit() else header).lower()
    if is_loopback(served):
        return is_loopback(name)
    own = socket.gethostname().lower()
    # A numeric address can't be made to resolve elsewhere.
    return name in {served.lower(), own, f"{own}.local"} or _address(name) is not None


class AccessMiddleware:
    """ASGI middleware: refuses what has another host name or no token; adds headers to answers.

    Args:
        app: what is asked if a request is let in.
        host: the address served on.
        token: what a request to any address below ``/api/`` has to show.
    """

    def __init__(self, app: ASGIApp, host: str, token: str) -> None:
        self._app, self._host, self._token = app, host, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(k.lower().encode(), v.encode()) for k, v in HEADERS.items()]
                message["headers"] = [*message.get("headers", []), *extra]
            await send(message)

        refusal = self._refusal(Headers(scope=scope), scope["path"])
        await (refusal or self._app)(scope, receive, with_headers)

    def _refusal(self, headers: Headers, path: str) -> Response | None:
        if not knows_host(self._host, headers.get("host", "")):
            words = "not this server's name; open the address that edgebench serve printed\n"
            return PlainTextResponse(words, 403)
        if not path.startswith("/api/"):
            # The page's own files, which a browser asks for without the token.
            return None
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        # The time taken doesn't depend on how much of it is right.
        same = hmac.compare_digest(shown.strip().encode(), self._token.encode())
        if same and scheme.lower() in _SCHEMES:
            return None
        return PlainTextResponse(_TEXT, 401, {"WWW-Authenticate": "Bearer"})


def new_token() -> str:
    """Return a token of 256 random bits."""
    return secrets.token_urlsafe(32)


@contextlib.contextmanager
def token_file(port: int, token: str) -> Iterator[Path]:
    """Yield the file with the token of the server on a port, which exists while the block runs.

    Only its owner can read it. Files that killed servers left are removed.

    Raises:
        MachineError: it can't be written.
    """
    path, text = state_folder() / f"serve-{port}.token", f"{token}\n"
    with contextlib.ExitStack() as kept:
        try:
            try:
                clear_token_files(path.parent)
                locked = False
                while not locked:
                    # A sweep that ends may remove the empty folder at any moment, and a server that
                    # starts the file until it is locked.
                    state_folder()
                    with contextlib.suppress(FileNotFoundError):
                        remove_file(path)
                        file = kept.enter_context(write_whole(path, text.encode(), 0o600).open())
                        fcntl.flock(file, fcntl.LOCK_EX)
                        locked = bool(os.fstat(file.fileno()).st_nlink)
            except OSError as error:
                raise MachineError(
                    f"the token's file can't be written: {error.strerror}",
                    where=str(path.parent),
                    remedy="set XDG_RUNTIME_DIR to a folder of your own",
                ) from error
            yield path
        finally:
            with contextlib.suppress(OSError):
                # A server on the same port of another address may have written its own.
                if path.read_text() == text:
                    remove_file(path)
            with contextlib.suppress(OSError):
                remove_empty_folder(path.parent)


STATIC = Path(__file__).with_name("static")
_MOST_SWEEPS = 50
#: When the server ends, open streams are cut off after this time.
_SHUTDOWN_S = 1
_TIMEOUT_S = 120.0
#: How a reply begins that is no error.
_ANSWER = b'{"answer":'
_MOST_KEPT = 6


class HelperProcess:
    """Runs one request at a time: each takes a core and some hundred megabytes."""

    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Semaphore(1)
        self._process: asyncio.subprocess.Process | None = None
        self._closed = False

    async def ask(self, about: str, **details: Any) -> bytes:
        """Return the answer to ``answer``, ``form``, ``check`` or ``predictions``, as JSON.

        Raises:
            EdgebenchError: it can't be answered; says why.
        """
        async with self._one_at_a_time:
            reply = await self._reply({"about": about, **details})
        if reply.startswith(_ANSWER):
            return reply[len(_ANSWER) : -1]
        error = json.loads(reply)["error"]
        raise EdgebenchError(error["what"], where=error["where"], remedy=error["remedy"])

    def close(self) -> None:
        """End the process and refuse further requests: the server ends."""
        self._closed = True
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _reply(self, request: dict[str, Any]) -> bytes:
        if self._closed:
            raise MachineError("the server is ending", remedy="start it again: edgebench serve")
        self._process = process = await asyncio.create_subprocess_exec(
            *own_program("edgebench.serve.helper_process"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd="/",
        )
        try:
            out, errors = await asyncio.wait_for(
                process.communicate(json.dumps(request).encode()), _TIMEOUT_S
            )
        except asyncio.TimeoutError:
            remedy = "try again when no sweep is running"
            raise MachineError(f"no answer within {_TIMEOUT_S:g} s", remedy=remedy) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            last = (errors.decode(errors="replace").strip().splitlines() or ["no output"])[-1]
            raise MachineError(f"the request failed: {last}")
        return out


@dataclass
class Endpoints:
    """The server's addresses but those of the page's own files.

    Args:
        page_sweep: the sweep that the page started.
        live_stream: what a browser is sent while it watches.
        files: the folder whose data sets, checkpoints and code the form may name.
    """

    page_sweep: PageSweep
    live_stream: LiveStream
    files: Path | None
    #: Answers in a fraction of a second: what was measured.
    quick: HelperProcess = field(default_factory=HelperProcess)
    #: Needs some seconds: the form, and what models tell.
    slow: HelperProcess = field(default_factory=HelperProcess)
    #: Reads results beside the event loop, for one request at a time.
    reader: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    _form: bytes | None = None
    #: What is asked about a sweep → of how many records it was answered, and the answer.
    _kept: dict[tuple[str, str], tuple[tuple[int, bool], bytes]] = field(default_factory=dict)

    def routes(self) -> list[Route]:
        """Every address."""
        return [
            Route("/api/live", self._live),
            Route("/api/form", _as_json(self.form)),
            Route("/api/check", _as_json(self._check), methods=["POST"]),
            Route("/api/start", _as_json(self._start), methods=["POST"]),
            Route("/api/stop", _as_json(self._stop), methods=["POST"]),
            Route("/api/sweeps", _as_json(self._sweeps)),
            Route("/api/trials", _as_json(self._trials)),
            Route("/api/trial", _as_json(self._trial)),
            Route("/api/answer", _as_json(self.answer)),
            Route("/api/predictions", _as_json(self._predictions)),
            Route("/api/trials.csv", _as_json(self._trials_csv)),
        ]

    async def _live(self, request: Request) -> Response:
        """Return the live stream, as server-sent events."""
        if self.live_stream.browsers >= MOST_BROWSERS:
            return PlainTextResponse("too many browsers watch\n", status_code=503)
        return StreamingResponse(self.live_stream.watch(), media_type="text/event-stream")

    async def form(self, request: Request | None = None) -> bytes:
        """Return the form, made once: it takes seconds on a small board, and doesn't change.

        Raises:
            EdgebenchError: it can't be made.
        """
        self._form = self._form or await self._ask_form("form")
        return self._form

    async def _check(self, request: Request) -> bytes:
        """Return what is wrong with the filled-in form, or what it would run."""
        try:
            sent = json.loads(await request.body())
        except (ValueError, RecursionError):
            sent = None
        if not isinstance(sent, dict):
            raise ResultsError("what was sent is not a form", remedy="reload the page")
        return await self._ask_form("check", sent=sent)

    async def _start(self, request: Request) -> Any:
        """Run the filled-in form if it has no faults."""
        checked = json.loads(await self._check(request))
        if "faults" in checked:
            return checked
        self.page_sweep.start(checked["name"], checked["scenario"])
        return {"started": checked["name"]}

    async def _ask_form(self, about: str, **details: Any) -> bytes:
        files = str(self.files) if self.files else None
        return await self.slow.ask(about, files=files, **details)

    async def _stop(self, request: Request) -> Any:
        """Stop the page's sweep."""
        self.page_sweep.stop()
        return {}

    async def _sweeps(self, request: Request) -> Any:
        return {"sweeps": await self._read(sweep_rows)}

    async def _trials(self, request: Request) -> Any:
        return {"trials": await self._read(trial_rows, _names(request))}

    async def _trial(self, request: Request) -> Any:
        """One trial with its samples, phases and layers."""
        names = (request.query_params.get(key, "") for key in ("sweep", "trial"))
        return await self._read(trial_detail, *names)

    async def _trials_csv(self, request: Request) -> Response:
        text = await self._read(trials_csv, _names(request))
        headers = {"Content-Disposition": 'attachment; filename="trials.csv"'}
        return Response(text, media_type="text/csv", headers=headers)

    async def _read(self, read: Callable[..., Any], *args: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.reader, read, self.page_sweep.root, *args)

    async def answer(self, request: Request | None = None) -> Any:
        """Return what a sweep measured; without a name the newest that has a trial.

        It also names every sweep, the newest first; ``name`` is None if none has a trial.

        Raises:
            EdgebenchError: no such sweep, or none can be read.
        """
        root = self.page_sweep.root
        names = sweep_names(root)
        asked = request.query_params.get("sweep", "") if request else ""
        fault: EdgebenchError | None = None
        for name in [asked] if asked else names:
            try:
                if asked or recorded_version(find_sweep(root, name))[0]:
                    answer = await self._about("answer", name)
                    # The answer may be large: it is passed on as it came.
                    first = json.dumps({"name": name, "sweeps": names}).encode()
                    return first[:-1] + b", " + answer[1:]
            except EdgebenchError as error:
                fault = fault or error
        if fault:
            raise fault
        return {"name": None, "sweeps": names}

    async def _predictions(self, request: Request) -> bytes:
        """Return what models tell of a sweep."""
        return await self._about("predictions", request.query_params.get("sweep", ""))

    async def _about(self, about: str, name: str) -> bytes:
        """Return the kept answer, or a new one where the sweep has more records."""
        path = find_sweep(self.page_sweep.root, name)
        version = recorded_version(path)
        if (kept := self._kept.get((about, name))) and kept[0] == version:
            return kept[1]
        helper = self.quick if about == "answer" else self.slow
        data = await helper.ask(about, sweep=str(path))
        self._kept.pop((about, name), None)
        self._kept[about, name] = version, data
        if len(self._kept) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return data


def _as_json(
    endpoint: Callable[[Request], Awaitable[Any]],
) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint whose data, or whose error, is sent as JSON."""

    async def answer(request: Request) -> Response:
        try:
            data = await endpoint(request)
        except EdgebenchError as error:
            words = {"what": error.what, "where": error.where, "remedy": error.remedy}
            return JSONResponse({"error": words}, status_code=422)
        if isinstance(data, bytes):
            return Response(data, media_type="application/json")
        return data if isinstance(data, Response) else JSONResponse(data)

    return answer


def _names(request: Request) -> list[str]:
    names = list(dict.fromkeys(request.query_params.getlist("sweep")))
    if not names or len(names) > _MOST_SWEEPS:
        raise ResultsError("no sweep, or too many", remedy=f"choose 1 to {_MOST_SWEEPS} sweeps")
    return names


def make_app(
    page_sweep: PageSweep, token: str, host: str = "127.0.0.1", files: Path | None = None
) -> Starlette:
    """Return the application over ``page_sweep``'s results.

    The form offers the files in ``files``.
    """
    live = LiveStream(page_sweep)
    endpoints = Endpoints(page_sweep, live, files)

    async def prepare() -> None:
        """Make what a browser shows first: the newest answer, then the form."""
        # Why it can't be made is answered when it is asked for.
        for make in (endpoints.answer, endpoints.form):
            with contextlib.suppress(EdgebenchError, OSError):
                await make()

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(live.run()), asyncio.create_task(prepare())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            endpoints.reader.shutdown(wait=False, cancel_futures=True)

    app = Starlette(
        routes=[*endpoints.routes(), Mount("/", StaticFiles(directory=STATIC, html=True))],
        middleware=[Middleware(AccessMiddleware, host=host, token=token)],
        lifespan=lifespan,
    )
    app.state.live, app.state.helpers = live, (endpoints.quick, endpoints.slow)
    return app


def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket to serve on; port 0 takes any free one.

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
    """Return the server, to be run on a socket of :func:`open_socket`."""
    import uvicorn

    class Server(uvicorn.Server):
        """Ends streams and helper processes first: neither end soon by themselves."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.state.live.close()
            for helper in app.state.helpers:
                helper.close()
            await super().shutdown(sockets)

    config = uvicorn.Config(
        app,
        access_log=False,
        http="h11",
        lifespan="on",
        # Anybody can cause warnings, by what is no request.
        log_level="error",
        loop="asyncio",
        server_header=False,
        timeout_graceful_shutdown=_SHUTDOWN_S,
        ws="none",
    )
    return Server(config)
