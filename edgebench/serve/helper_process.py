"""A process that answers one request needing large libraries, and ends; the server stays small.

The request is JSON on stdin, the reply
JSON on stdout, ``{"answer": …}`` or ``{"error": {"what", "where", "remedy"}}``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from edgebench.errors import EdgebenchError, MachineError
from edgebench.extras import missing_library_error
from edgebench.processes import own_program

_TIMEOUT_S = 120.0
#: Everything else on the machine has a higher priority.
_NICE = 10
#: How a reply begins that is no error.
_ANSWER = b'{"answer": '


class HelperProcess:
    """Runs one request at a time: each takes a core and some hundred megabytes."""

    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Semaphore(1)
        self._process: asyncio.subprocess.Process | None = None
        self._closed = False

    async def ask(self, about: str, **details: Any) -> dict[str, Any]:
        """The answer to a request: ``answer``, ``form``, ``check``, ``predictions``.

        Raises:
            EdgebenchError: it can't be answered; says why.
        """
        answer: dict[str, Any] = json.loads(await self.ask_text(about, **details))
        return answer

    async def ask_text(self, about: str, **details: Any) -> bytes:
        """The same as JSON, unread: a large answer that is only passed on takes little memory.

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


def answer_request(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to one request, in the process itself.

    Raises:
        EdgebenchError: it can't be answered.
    """
    if request["about"] == "answer":
        from edgebench.serve.sweep_answer import sweep_answer

        return sweep_answer(Path(request["sweep"]))
    if request["about"] == "predictions":
        from edgebench.serve.limit_predictions import predict_limits

        return predict_limits(Path(request["sweep"]))
    from edgebench.serve.form import check_form, form_tables
    from edgebench.serve.form_files import FormFiles

    files = FormFiles(Path(request["files"]) if request["files"] else None)
    if request["about"] == "form":
        return form_tables(files)
    return check_form(request["sent"], files)


def reply_to(request: dict[str, Any]) -> bytes:
    """The reply to one request, as JSON: its answer, or why there is none."""
    try:
        reply = {"answer": answer_request(request)}
    except (EdgebenchError, ModuleNotFoundError) as error:
        known = error if isinstance(error, EdgebenchError) else missing_library_error(error)
        if known is None:
            raise
        reply = {"error": {"what": known.what, "where": known.where, "remedy": known.remedy}}
    return json.dumps(reply).encode()


def main() -> None:
    """Read a request from stdin and print the reply."""
    os.nice(_NICE)
    sys.stdout.buffer.write(reply_to(json.load(sys.stdin)))


if __name__ == "__main__":
    main()
