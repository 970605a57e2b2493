"""What each address answers. Errors that the user can fix are sent as ``{"error": …}``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from edgebench.errors import EdgebenchError, ResultsError
from edgebench.serve import history
from edgebench.serve.helper_process import HelperProcess
from edgebench.serve.job_queue import JobQueue
from edgebench.serve.live import MOST_BROWSERS, LiveStream
from edgebench.serve.page_data import board_rows, job_data
from edgebench.serve.sweep_answers import SweepAnswers

_NO_STORE = {"Cache-Control": "no-store"}
_MOST_SWEEPS = 50


@dataclass
class Endpoints:
    """The server's addresses but those of the page's own files.

    Args:
        root: the folder that holds all results.
        queue: the sweeps that the page started.
        live_stream: what a browser is sent while it watches.
        helper: answers what needs large libraries.
        answers: what each sweep found.
        files: the folder whose data sets and checkpoints the form offers.
        reader: reads results beside the event loop, for one request at a time.
    """

    root: Path
    queue: JobQueue
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
            Route("/api/jobs", _as_json(self._start), methods=["POST"]),
            Route("/api/jobs/{job}/stop", _as_json(self._stop), methods=["POST"]),
            Route("/api/jobs/{job}/again", _as_json(self._again), methods=["POST"]),
            Route("/api/sweeps", _as_json(self._sweeps)),
            Route("/api/trials", _as_json(self._trials)),
            Route("/api/trial", _as_json(self._trial)),
            Route("/api/answer", _as_json(self._answer)),
            Route("/api/predictions", _as_json(self._predict)),
            Route("/trials.csv", _as_json(self._trials_csv)),
        ]

    async def make_form(self) -> dict[str, Any]:
        """The form, made once: it takes seconds on a small board, and doesn't change.

        Raises:
            EdgebenchError: it can't be made.
        """
        async with self._form_lock:
            if self._form is None:
                self._form = await self._ask("form")
            return self._form

    async def _live(self, request: Request) -> Response:
        """The live stream, as server-sent events."""
        if self.live_stream.browsers >= MOST_BROWSERS:
            return PlainTextResponse("too many browsers watch\n", status_code=503)
        headers = {**_NO_STORE, "X-Accel-Buffering": "no"}
        events = self.live_stream.watch()
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def _get_form(self, request: Request) -> Any:
        return {"tables": await self.make_form()}

    async def _check(self, request: Request) -> Any:
        """What is wrong with the filled-in form, or what it would run."""
        checked = await self._checked(request)
        return {key: value for key, value in checked.items() if key != "scenario"}

    async def _start(self, request: Request) -> Any:
        """Queue the filled-in form if it has no faults."""
        checked = await self._checked(request)
        if "faults" in checked:
            return checked
        job = self.queue.add(checked["name"], checked["scenario"])
        self.queue.advance()
        return {"job": job_data(self.queue.jobs[job.id]), "warnings": checked["warnings"]}

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
        """Stop a sweep, or remove it from the queue."""
        return {"job": job_data(self.queue.stop(request.path_params["job"]))}

    async def _again(self, request: Request) -> Any:
        """Queue a job's scenario once more."""
        return {"job": job_data(self.queue.again(request.path_params["job"]))}

    async def _sweeps(self, request: Request) -> Any:
        return {"sweeps": await self._read(history.sweep_rows, self.root)}

    async def _trials(self, request: Request) -> Any:
        return {"trials": await self._read(history.trial_rows, self.root, _names(request))}

    async def _trial(self, request: Request) -> Any:
        """One trial with its samples, phases and layers."""
        names = (request.query_params.get(key, "") for key in ("sweep", "trial"))
        return await self._read(history.trial_detail, self.root, *names)

    async def _trials_csv(self, request: Request) -> Response:
        text = await self._read(history.trials_csv, self.root, _names(request))
        headers = {**_NO_STORE, "Content-Disposition": 'attachment; filename="trials.csv"'}
        return Response(text, media_type="text/csv", headers=headers)

    async def _answer(self, request: Request) -> Any:
        """What a sweep measured; without a name the newest one."""
        return await self.answers.answer(request.query_params.get("sweep", ""))

    async def _predict(self, request: Request) -> Any:
        """What models tell of a sweep."""
        return await self.answers.predictions(request.query_params.get("sweep", ""))

    async def _read(self, read: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.reader, read, *args)


async def _boards(request: Request) -> Any:
    return {"boards": board_rows()}


def _as_json(
    endpoint: Callable[[Request], Awaitable[Any]],
) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint whose data, or whose error, is sent as JSON."""

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
