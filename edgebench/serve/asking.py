"""Questions that need large libraries, asked of a process that is gone afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from typing import Any

from edgebench.errors import EdgebenchError, MachineError
from edgebench.process import python_path

_PATIENCE_S = 120.0


class Clerks:
    """One at a time: each takes a core and some hundred megabytes while it thinks."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(1)
        self._process: asyncio.subprocess.Process | None = None
        self._closed = False

    async def ask(self, ask: str, **question: Any) -> dict[str, Any]:
        """The answer of :mod:`edgebench.serve.clerk`.

        Raises:
            EdgebenchError: what the clerk could not answer, and why.
        """
        async with self._turn:
            told = await self._told({"ask": ask, **question})
        if error := told.get("error"):
            raise EdgebenchError(error["what"], where=error["where"], remedy=error["remedy"])
        answer: dict[str, Any] = told["answer"]
        return answer

    def close(self) -> None:
        """Who still thinks is sent away, and nobody is asked any more: the server ends."""
        self._closed = True
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _told(self, question: dict[str, Any]) -> dict[str, Any]:
        if self._closed:
            raise MachineError("the server ends", remedy="start it again: edgebench serve")
        self._process = process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "edgebench.serve.clerk"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": python_path()},
        )
        try:
            out, said = await asyncio.wait_for(
                process.communicate(json.dumps(question).encode()), _PATIENCE_S
            )
        except asyncio.TimeoutError:
            remedy = "ask again when no sweep runs"
            raise MachineError(f"no answer within {_PATIENCE_S:g} s", remedy=remedy) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            last = (said.decode(errors="replace").strip().splitlines() or ["no word of why"])[-1]
            raise MachineError(f"the question could not be answered: {last}")
        told: dict[str, Any] = json.loads(out)
        return told
