"""What each address answers. Errors that a person can mend come as ``{"error": …}``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from edgebench.errors import EdgebenchError, ResultsError
from edgebench.serve import history
from edgebench.serve.asking import Clerks
from edgebench.serve.live import MOST_BROWSERS, Hub, TooManyBrowsersError
from edgebench.serve.queue import Queue
from edgebench.serve.shown import job_data

_NO_STORE = {"Cache-Control": "no-store"}
_MOST_SWEEPS = 50
T = TypeVar("T")


@dataclass
class Office:
    """What the answers are made from.

    Args:
        root: the folder that holds all results.
        queue: sweeps asked for.
        hub: the live view.
        reader: reads results beside the event loop, one request at a time.
        files: the folder whose data sets and checkpoints the form offers.
    """

    root: Path
    queue: Queue
    hub: Hub
    clerks: Clerks
    reader: ThreadPoolExecutor
    files: Path | None = None
    form: dict[str, Any] | None = None
    predicted: tuple[tuple[str, int], dict[str, Any]] | None = None
    forming: asyncio.Lock = field(default_factory=asyncio.Lock)

    def routes(self) -> list[Route]:
        """Every address but those of the page's own files."""
        return [
            Route("/api/live", self.live),
            Route("/api/form", _answering(self.get_form)),
            Route("/api/check", _answering(self.check), methods=["POST"]),
            Route("/api/jobs", _answering(self.start), methods=["POST"]),
            Route("/api/jobs/{job}/stop", _answering(self.stop), methods=["POST"]),
            Route("/api/jobs/{job}/again", _answering(self.again), methods=["POST"]),
            Route("/api/sweeps", _answering(self.sweeps)),
            Route("/api/trials", _answering(self.trials)),
            Route("/api/trial", _answering(self.trial)),
            Route("/api/what-if", _answering(self.what_if)),
            Route("/trials.csv", _answering(self.trials_csv)),
        ]

    async def live(self, request: Request) -> Response:
        """The live view, as server-sent events."""
        if self.hub.browsers >= MOST_BROWSERS:
            return PlainTextResponse("too many browsers watch\n", status_code=503)
        headers = {**_NO_STORE, "X-Accel-Buffering": "no"}
        return StreamingResponse(
            _until_full(self.hub.watch()), media_type="text/event-stream", headers=headers
        )

    async def get_form(self, request: Request) -> Any:
        """The keys that a person may fill in."""
        await self.make_form()
        return {"tables": self.form}

    async def make_form(self) -> None:
        """Have the form at hand: it takes seconds on a small board, and doesn't change.

        Raises:
            EdgebenchError: it can't be made.
        """
        async with self.forming:
            if self.form is None:
                self.form = await self._ask("form")

    async def check(self, request: Request) -> Any:
        """What is wrong with what was filled in, or what it would run."""
        checked = await self._ask("check", sent=await _sent(request))
        return {key: value for key, value in checked.items() if key != "scenario"}

    async def start(self, request: Request) -> Any:
        """Queue what was filled in, if it is right."""
        checked = await self._ask("check", sent=await _sent(request))
        if "faults" in checked:
            return checked
        job = self.queue.add(checked["name"], checked["scenario"])
        self.queue.tend()
        return {"job": job_data(self.queue.jobs[job.id]), "warnings": checked["warnings"]}

    async def stop(self, request: Request) -> Any:
        """Stop a sweep, or take it out of the queue."""
        return {"job": job_data(self.queue.stop(request.path_params["job"]))}

    async def again(self, request: Request) -> Any:
        """Queue a job's scenario once more."""
        return {"job": job_data(self.queue.again(request.path_params["job"]))}

    async def sweeps(self, request: Request) -> Any:
        """Every sweep."""
        return {"sweeps": await self._read(history.sweep_rows, self.root)}

    async def trials(self, request: Request) -> Any:
        """Every trial of the sweeps named."""
        names = _names(request)
        return {"trials": await self._read(lambda: list(history.trial_rows(self.root, names)))}

    async def trial(self, request: Request) -> Any:
        """One trial with its samples, phases and layers."""
        asked = (request.query_params.get(key, "") for key in ("sweep", "trial"))
        return await self._read(history.trial_detail, self.root, *asked)

    async def trials_csv(self, request: Request) -> Response:
        """The trials of the sweeps named, as a file."""
        text = await self._read(history.trials_csv, self.root, _names(request))
        headers = {**_NO_STORE, "Content-Disposition": 'attachment; filename="trials.csv"'}
        return Response(text, media_type="text/csv", headers=headers)

    async def what_if(self, request: Request) -> Any:
        """What limits would do to a sweep's workloads."""
        name = request.query_params.get("sweep", "")
        path = await self._read(history.find_sweep, self.root, name)
        # Seconds of fitting: the last answer holds until the sweep has grown.
        stamp = (name, await self._read(history.size_of, path))
        if self.predicted is None or self.predicted[0] != stamp:
            self.predicted = (stamp, await self.clerks.ask("what-if", sweep=str(path)))
        return self.predicted[1]

    async def _ask(self, about: str, **question: Any) -> dict[str, Any]:
        """What a clerk says of the form."""
        files = str(self.files) if self.files else None
        return await self.clerks.ask(about, files=files, **question)

    async def _read(self, read: Callable[..., T], *words: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.reader, partial(read, *words))


def _answering(
    endpoint: Callable[[Request], Awaitable[Any]],
) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint whose data become JSON, and whose errors are told in words."""

    async def answer(request: Request) -> Response:
        try:
            data = await endpoint(request)
        except EdgebenchError as error:
            told = {"what": error.what, "where": error.where, "remedy": error.remedy}
            return JSONResponse({"error": told}, status_code=422, headers=_NO_STORE)
        if isinstance(data, Response):
            return data
        return JSONResponse(data, headers=_NO_STORE)

    return answer


async def _sent(request: Request) -> dict[str, Any]:
    try:
        data = json.loads(await request.body())
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise ResultsError("that is no form's content", remedy="reload the page")
    return data


def _names(request: Request) -> list[str]:
    names = list(dict.fromkeys(request.query_params.getlist("sweep")))
    if not names or len(names) > _MOST_SWEEPS:
        raise ResultsError("which sweeps?", remedy=f"choose 1 to {_MOST_SWEEPS} of them")
    return names


async def _until_full(events: AsyncIterator[str]) -> AsyncIterator[str]:
    """The events; none where a browser came too late to find a place."""
    try:
        async for event in events:
            yield event
    except TooManyBrowsersError:
        return
