"""Asks a helper process; its answers on sweeps are kept until there are more trials.

The server itself stays small: what needs large libraries is answered by
:mod:`edgebench.serve.helper_process`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgebench.errors import EdgebenchError, MachineError
from edgebench.processes import own_program
from edgebench.results.live.sweep import sweeps_below
from edgebench.serve.history import find_sweep, recorded_version, sweep_name

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
