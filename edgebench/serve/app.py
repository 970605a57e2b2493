"""The application and the server: what each address answers, and the page's own files.

The server itself stays small: what needs large libraries is answered by
:mod:`edgebench.serve.helper_process`, and kept until there are more trials.
Errors that the user can fix are sent as ``{"error": …}``.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from edgebench.errors import EdgebenchError, MachineError, ResultsError, UsageError
from edgebench.processes import own_program
from edgebench.results.live.sweep import sweeps_below
from edgebench.serve import history
from edgebench.serve.history import find_sweep, recorded_version, sweep_name
from edgebench.serve.live import MOST_BROWSERS, LiveStream, board_rows
from edgebench.serve.page_sweep import PageSweep
from edgebench.serve.security import AccessMiddleware, AccessRules

if TYPE_CHECKING:
    import uvicorn

_NO_STORE = {"Cache-Control": "no-store"}
_MOST_SWEEPS = 50


STATIC = Path(__file__).with_name("static")
_TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript"}
_TYPES |= {".svg": "image/svg+xml", ".txt": "text/plain"}
#: When the server ends, open streams are cut off after this time.
_SHUTDOWN_S = 1


_TIMEOUT_S = 120.0
#: How a reply begins that is no error.
_ANSWER = b'{"answer": '
#: A sweep that runs is read again after this time at the earliest: it should not be disturbed.
_RUNNING_S = 15.0
_MOST_KEPT = 6


class HelperProcess:
    """Runs one request at a time: each takes a core and some hundred megabytes."""

    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Semaphore(1)
        self._process: asyncio.subprocess.Process | None = None
        self._closed = False

    async def ask(self, about: str, **details: Any) -> dict[str, Any]:
        """Return the answer to ``answer``, ``form``, ``check``, ``predictions`` or ``boards``.

        Raises:
            EdgebenchError: it can't be answered; says why.
        """
        answer: dict[str, Any] = json.loads(await self.ask_text(about, **details))
        return answer

    async def ask_text(self, about: str, **details: Any) -> bytes:
        """Return the same as JSON, unread: a large answer that is passed on takes little memory.

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


@dataclass(frozen=True)
class _Kept:
    version: tuple[int, bool]
    made_s: float
    data: bytes


@dataclass
class SweepAnswers:
    """What was found about each sweep: ``answer`` from records, ``predictions`` from models.

    Args:
        root: the folder that holds all results.
        quick: makes answers, in a fraction of a second.
        slow: makes predictions, in some seconds.
    """

    root: Path
    quick: HelperProcess
    slow: HelperProcess
    _kept: dict[tuple[str | int | None, ...], _Kept] = field(default_factory=dict)
    _one_at_a_time: dict[str, asyncio.Lock] = field(default_factory=dict)

    async def answer(self, name: str) -> bytes:
        """As JSON, what was measured; ``""``: of the newest sweep that has a trial and can be read.

        It also names every sweep, the newest first; ``name`` is None if none has a trial.

        Raises:
            EdgebenchError: no such sweep, or it can't be read.
        """
        names = [sweep_name(path) for path in reversed(sweeps_below(self.root))]
        fault: EdgebenchError | None = None
        for one in [name] if name else filter(self._has_trials, names):
            try:
                return _joined({"name": one, "sweeps": names}, await self._once("answer", one))
            except EdgebenchError as error:
                fault = fault or error
        if fault:
            raise fault
        return json.dumps({"name": None, "sweeps": names}).encode()

    async def predictions(self, name: str) -> bytes:
        """As JSON, what models tell of that sweep.

        Raises:
            EdgebenchError: no such sweep, or it can't be read.
        """
        return await self._once("predictions", name)

    async def boards(self, name: str, reserve_bytes: int | None) -> bytes:
        """As JSON, how it does on boards whose system keeps so much; None: as their files say.

        Raises:
            EdgebenchError: no such sweep, or it can't be read.
        """
        return await self._once("boards", name, reserve=reserve_bytes)

    def _has_trials(self, name: str) -> bool:
        return recorded_version(find_sweep(self.root, name))[0] > 0

    async def _once(self, about: str, name: str, **details: int | None) -> bytes:
        """Return the kept answer, or a new one; requests for the same wait for each other."""
        key = (about, name, *details.values())
        async with self._one_at_a_time.setdefault(about, asyncio.Lock()):
            path = find_sweep(self.root, name)
            version, kept = recorded_version(path), self._kept.get(key)
            # What was made of fewer trials is shown for a while of a sweep that goes on.
            is_fresh = kept and not version[1] and time.monotonic() - kept.made_s < _RUNNING_S
            if kept and (kept.version == version or is_fresh):
                return kept.data
            helper = self.quick if about == "answer" else self.slow
            data = await helper.ask_text(about, sweep=str(path), **details)
            self._kept.pop(key, None)
            self._kept[key] = _Kept(version, time.monotonic(), data)
            if len(self._kept) > _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            return data


def _joined(first: dict[str, Any], rest: bytes) -> bytes:
    """Return the keys of both; the rest, which may be large, stays as it is."""
    return json.dumps(first).encode()[:-1] + b", " + rest[1:]


@dataclass
class Endpoints:
    """The server's addresses but those of the page's own files.

    Args:
        page_sweep: the sweep that the page started.
        live_stream: what a browser is sent while it watches.
        helper: answers what needs large libraries.
        answers: what each sweep found.
        files: the folder whose data sets and checkpoints the form offers.
        reader: reads results beside the event loop, for one request at a time.
    """

    page_sweep: PageSweep
    live_stream: LiveStream
    helper: HelperProcess
    answers: SweepAnswers
    files: Path | None
    reader: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    _form: dict[str, Any] | None = None
    _form_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def routes(self) -> list[Route]:
        """Every address."""
        return [
            Route("/api/live", self._live),
            Route("/api/boards", _as_json(_boards)),
            Route("/api/form", _as_json(self._get_form)),
            Route("/api/check", _as_json(self._check), methods=["POST"]),
            Route("/api/start", _as_json(self._start), methods=["POST"]),
            Route("/api/stop", _as_json(self._stop), methods=["POST"]),
            Route("/api/sweeps", _as_json(self._sweeps)),
            Route("/api/trials", _as_json(self._trials)),
            Route("/api/trial", _as_json(self._trial)),
            Route("/api/answer", _as_json(self._answer)),
            Route("/api/predictions", _as_json(self._predict)),
            Route("/api/predictions/boards", _as_json(self._predict_boards)),
            Route("/api/trials.csv", _as_json(self._trials_csv)),
        ]

    async def make_form(self) -> dict[str, Any]:
        """Return the form, made once: it takes seconds on a small board, and doesn't change.

        Raises:
            EdgebenchError: it can't be made.
        """
        async with self._form_lock:
            if self._form is None:
                self._form = await self._ask("form")
            return self._form

    async def _live(self, request: Request) -> Response:
        """Return the live stream, as server-sent events."""
        if self.live_stream.browsers >= MOST_BROWSERS:
            return PlainTextResponse("too many browsers watch\n", status_code=503)
        headers = {**_NO_STORE, "X-Accel-Buffering": "no"}
        events = self.live_stream.watch()
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def _get_form(self, request: Request) -> Any:
        return {"tables": await self.make_form()}

    async def _check(self, request: Request) -> Any:
        """Return what is wrong with the filled-in form, or what it would run."""
        checked = await self._checked(request)
        return {key: value for key, value in checked.items() if key != "scenario"}

    async def _start(self, request: Request) -> Any:
        """Run the filled-in form if it has no faults."""
        checked = await self._checked(request)
        if "faults" in checked:
            return checked
        self.page_sweep.start(checked["name"], checked["scenario"])
        return {"started": checked["name"]}

    async def _checked(self, request: Request) -> dict[str, Any]:
        try:
            sent = json.loads(await request.body())
        except (ValueError, RecursionError):
            sent = None
        if not isinstance(sent, dict):
            raise ResultsError("what was sent is not a form", remedy="reload the page")
        return await self._ask("check", sent=sent)

    async def _ask(self, about: str, **details: Any) -> dict[str, Any]:
        files = str(self.files) if self.files else None
        return await self.helper.ask(about, files=files, **details)

    async def _stop(self, request: Request) -> Any:
        """Stop the page's sweep."""
        self.page_sweep.stop()
        return {}

    async def _sweeps(self, request: Request) -> Any:
        return {"sweeps": await self._read(history.sweep_rows, self.page_sweep.root)}

    async def _trials(self, request: Request) -> Any:
        return {
            "trials": await self._read(history.trial_rows, self.page_sweep.root, _names(request))
        }

    async def _trial(self, request: Request) -> Any:
        """One trial with its samples, phases and layers."""
        names = (request.query_params.get(key, "") for key in ("sweep", "trial"))
        return await self._read(history.trial_detail, self.page_sweep.root, *names)

    async def _trials_csv(self, request: Request) -> Response:
        text = await self._read(history.trials_csv, self.page_sweep.root, _names(request))
        headers = {**_NO_STORE, "Content-Disposition": 'attachment; filename="trials.csv"'}
        return Response(text, media_type="text/csv", headers=headers)

    async def _answer(self, request: Request) -> Any:
        """Return what a sweep measured; without a name the newest one."""
        return await self.answers.answer(request.query_params.get("sweep", ""))

    async def _predict(self, request: Request) -> Any:
        """Return what models tell of a sweep."""
        return await self.answers.predictions(request.query_params.get("sweep", ""))

    async def _predict_boards(self, request: Request) -> Any:
        """How a sweep's workloads do on boards."""
        asked = request.query_params
        reserve = asked.get("reserve", "")
        try:
            kept = int(reserve) if reserve else None
        except ValueError:
            raise UsageError(f"{reserve!r} is not a number of bytes") from None
        return await self.answers.boards(asked.get("sweep", ""), kept)

    async def _read(self, read: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.reader, read, *args)


async def _boards(request: Request) -> Any:
    return {"boards": board_rows()}


def _as_json(
    endpoint: Callable[[Request], Awaitable[Any]],
) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint whose data, or whose error, is sent as JSON."""

    async def answer(request: Request) -> Response:
        try:
            data = await endpoint(request)
        except EdgebenchError as error:
            words = {"what": error.what, "where": error.where, "remedy": error.remedy}
            return JSONResponse({"error": words}, status_code=422, headers=_NO_STORE)
        if isinstance(data, bytes):
            return Response(data, media_type="application/json", headers=_NO_STORE)
        return data if isinstance(data, Response) else JSONResponse(data, headers=_NO_STORE)

    return answer


def _names(request: Request) -> list[str]:
    names = list(dict.fromkeys(request.query_params.getlist("sweep")))
    if not names or len(names) > _MOST_SWEEPS:
        raise ResultsError("no sweep, or too many", remedy=f"choose 1 to {_MOST_SWEEPS} sweeps")
    return names


def make_app(page_sweep: PageSweep, rules: AccessRules, files: Path | None = None) -> Starlette:
    """Return the application over ``page_sweep``'s results.

    The form offers the files in ``files``.
    """
    helper, quick = HelperProcess(), HelperProcess()
    live = LiveStream(page_sweep)
    answers = SweepAnswers(page_sweep.root, quick, helper)
    endpoints = Endpoints(page_sweep, live, helper, answers, files)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(live.run()), asyncio.create_task(_prepare(endpoints))]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            endpoints.reader.shutdown(wait=False, cancel_futures=True)

    page_files = _file_routes()
    public = {route.path for route in page_files}
    app = Starlette(
        routes=[*page_files, *endpoints.routes()],
        middleware=[Middleware(AccessMiddleware, rules=rules, public=public)],
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
    """Return the page's files, held in memory: they are few and small."""
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

    from edgebench.serve.security import MOST_WAITING, LimitedConnection, limit_log

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
