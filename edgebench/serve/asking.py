"""Questions that need large libraries, asked of a process that is gone afterwards."""

from __future__ import annotations

import asyncio
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

    async def ask(self, ask: str, **question: Any) -> dict[str, Any]:
        """The answer of :mod:`edgebench.serve.clerk`.

        Raises:
            EdgebenchError: what the clerk could not answer, and why.
        """
        async with self._turn:
            told = await _told({"ask": ask, **question})
        if error := told.get("error"):
            raise EdgebenchError(error["what"], where=error["where"], remedy=error["remedy"])
        answer: dict[str, Any] = told["answer"]
        return answer


async def _told(question: dict[str, Any]) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
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
