"""The controller's end of an SSH session to one machine.

SSH alone connects the two: nothing listens, and there is no key but the user's own for SSH, which
stays on this computer. The machine gets orders and gives answers, nothing else.
"""

from __future__ import annotations

import asyncio
import shlex
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from edgebench.errors import FleetError
from edgebench.fleet import messages
from edgebench.fleet.inventory import HostKeys
from edgebench.text import printable

_T = TypeVar("_T")
#: The most of one answer: of a trial's files, and of all else.
_MOST_FILE_BYTES = 1 << 30
_MOST_OTHER_BYTES = 16 << 20
_END_BYTES = 2000
#: How long a machine gets to clean up after its last trial, and how long SSH to end by itself.
_CLOSING_S = 60.0
_ENDING_S = 2.0


class MachineLostError(FleetError):
    """The session ended, or the machine is silent: it may come back."""


class Session:
    """What runs on a machine for us; at the end of the block it cleans up.

    ``lost_after_s``: how long it may be silent. ``tell`` gets what it says that it does.
    """

    def __init__(self, host: HostKeys, lost_after_s: float, tell: Callable[[str], None]) -> None:
        self._host, self._lost_after_s, self._tell = host, lost_after_s, tell
        self._file_bytes = self._other_bytes = self._texts = 0
        self._said, self._is_greeted = b"", False

    async def __aenter__(self) -> Session:
        process = await asyncio.create_subprocess_exec(
            *self._host.command("edgebench.fleet.service", str(self._lost_after_s)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            limit=messages.MOST_LINE_BYTES,
            # The terminal's signals are ours alone: the session is ended in order.
            start_new_session=True,
        )
        assert process.stdin
        assert process.stdout
        assert process.stderr
        self._process, self._orders, self._answers = process, process.stdin, process.stdout
        self._listening = asyncio.ensure_future(self._listen(process.stderr))
        self._beating = asyncio.ensure_future(self._beat())
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._beating.cancel()
        self._orders.close()
        # One that is lost or refused is not waited for.
        for wait_s in (0.0 if isinstance(error, FleetError) else _CLOSING_S, _ENDING_S):
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._end(), wait_s)
            if self._process.returncode is None:
                self._process.kill()
        self._listening.cancel()

    async def _end(self) -> None:
        # As long as answers are unread, the process is not seen to end.
        while await self._answers.read(messages.PIECE_BYTES):
            pass
        await asyncio.wait([self._listening])
        await self._process.wait()

    async def _listen(self, errors: asyncio.StreamReader) -> None:
        while data := await errors.read(_END_BYTES):
            self._said = (self._said + data)[-_END_BYTES:]

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._lost_after_s / messages.BEATS)
            self._orders.write(messages.encode(messages.Beat()))

    async def _in_time(self, act: Awaitable[_T]) -> _T:
        try:
            return await asyncio.wait_for(act, self._lost_after_s)
        except asyncio.TimeoutError:
            raise MachineLostError(f"it was silent for {self._lost_after_s:g} s") from None

    async def send(self, message: messages.Order) -> None:
        """Give the machine an order. That the session ended is told by :meth:`receive`."""
        self._file_bytes = self._other_bytes = 0
        with suppress(ConnectionError):
            self._orders.write(messages.encode(message))
            await self._in_time(self._orders.drain())

    async def receive(self) -> messages.Answer:
        """Return the machine's next answer.

        Raises:
            FleetError: the machine can't do what was asked for, or sends what is no answer.
            MachineLostError: the session ended, or the machine is silent.
        """
        while True:
            answer = None
            try:
                line = await self._in_time(self._answers.readline())
                # Other lines are a shell's greeting.
                if line.startswith(b"{") and line.endswith(b"\n"):
                    answer = messages.decode_answer(line)
            except ValueError as error:
                raise self.refused(str(error)) from None
            if not line.endswith(b"\n"):
                raise await self._ended()
            if isinstance(answer, messages.File):
                self._file_bytes += len(line)
            else:
                self._other_bytes += len(line)
            if self._file_bytes > _MOST_FILE_BYTES or self._other_bytes > _MOST_OTHER_BYTES:
                raise self.refused("more than an answer can have")
            if isinstance(answer, messages.Failed):
                raise FleetError(answer.what, where=answer.where, remedy=answer.remedy)
            if isinstance(answer, messages.Beat):
                if answer.text and self._texts < 100:
                    self._texts += 1
                    self._tell(answer.text)
            elif answer:
                self._is_greeted = True
                return answer

    async def expect(self, kind: type[_T]) -> _T:
        """Return the machine's next answer, which is of that kind; raises as :meth:`receive`."""
        answer = await self.receive()
        if not isinstance(answer, kind):
            raise self.refused(f"{type(answer).__name__} in place of {kind.__name__}")
        return answer

    def refused(self, why: str) -> FleetError:
        """Return the error where the machine sends what can't be an answer."""
        remedy = "install the same edgebench there as here; see who else can log in there"
        return FleetError(f"it sends what is no answer: {why}", remedy=remedy)

    async def _ended(self) -> FleetError:
        """Return the error where the session ended by itself, from the last words of SSH."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._end(), _ENDING_S)
        lines = self._said.decode(errors="replace").strip().splitlines() or ["no word of why"]
        last = printable(lines[-1]).rstrip(".")
        if self._is_greeted:
            return MachineLostError(f"the session ended: {last}")
        # SSH's own exit code for: no connection.
        if self._process.returncode != 255:
            remedy = "install edgebench there, and name its Python in the inventory: python = …"
            return FleetError(f"its Python can't start edgebench: {last}", remedy=remedy)
        address = shlex.quote(self._host.ssh)
        remedy = f"try it by hand: ssh {address} true"
        if "Host key verification failed" in last:
            remedy = f"log in once by hand, and answer its question: ssh {address}"
        elif "Permission denied" in last:
            remedy = f"let this computer's key in: ssh-copy-id {address} (no key yet: ssh-keygen)"
        return MachineLostError(f"not reached: {last}", remedy=remedy)
