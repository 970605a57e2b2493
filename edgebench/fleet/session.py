"""The machines of a fleet: the inventory that lists them, and an SSH session to one of them.

``docs/verbs/fleet.md`` explains every key of the inventory.

SSH alone connects the two: nothing listens, and there is no key but the user's own for SSH, which
stays on this computer. The machine gets orders and gives answers, nothing else.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from edgebench.errors import FleetError
from edgebench.fleet.messages import (
    BEATS,
    MOST_LINE_BYTES,
    PIECE_BYTES,
    Answer,
    Beat,
    Failed,
    File,
    Order,
    decode_answer,
    encode,
)
from edgebench.processes import installed_program
from edgebench.safe_files import read_text
from edgebench.scenario.keys import Seconds, TomlTable, faults_of, file_error_words, key
from edgebench.text import printable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


#: SSH asks no question. Nothing of the user's configuration lets the machine reach back to us, or
#: lets the session outlive our own process.
_SSH = (
    *("ssh", "-T", "-a", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"),
    *("-o", "ClearAllForwardings=yes", "-o", "ControlPath=none"),
)


class HostKeys(TomlTable):
    """One machine."""

    ssh: str = key(..., '"pi@192.168.1.21"')
    python: Annotated[str, Field(min_length=1)] = key("python3", '"/opt/venv/bin/python"')

    @field_validator("ssh", "python")
    @classmethod
    def _words(cls, text: str, info: ValidationInfo) -> str:
        # A word that begins so is an option to ssh, which may name a program to run.
        is_one = len(shlex.split(text)) == 1 and not text.startswith("-")
        if info.field_name == "ssh" and not is_one:
            raise ValueError(f'{text!r} is no machine; write user@address, as "pi@192.168.1.21"')
        return text

    def command(self, module: str, *words: str) -> list[str]:
        """Return what runs a module of edgebench there, as a program."""
        program = [*shlex.split(self.python), *installed_program(module, *words)]
        # OpenSSH hands the words to the user's shell there, which would hold the session's pipes.
        return [*_SSH, "--", self.ssh, f"exec {shlex.join(program)}"]


class Inventory(TomlTable):
    """What one file says; attributes carry their unit where the key has none."""

    schema_version: Literal[1] = key(..., "1", alias="schema")
    lost_after_s: Annotated[Seconds, Field(ge=2)] = key(180.0, '"3min"', alias="lost_after")
    hosts: dict[str, HostKeys] = key(..., "a table for each machine: [hosts.pi-1]")

    @field_validator("hosts")
    @classmethod
    def _plain_names(cls, hosts: dict[str, HostKeys]) -> dict[str, HostKeys]:
        if not hosts:
            raise ValueError('names no machine; write a table for each: [hosts.pi-1] ssh = "…"')
        for name in hosts:
            if not re.fullmatch("[a-z0-9][a-z0-9-]{0,40}", name):
                raise ValueError(f"{name!r} can't be a host: only a-z, 0-9 and '-', 41 at most")
        return hosts


def load_inventory(path: Path) -> Inventory:
    """Return the inventory of a file.

    Raises:
        FleetError: no such file, no TOML, or faults in it, all reported at once.
    """
    try:
        text = read_text(path)
        data = tomllib.loads(text)
        return Inventory.model_validate(data)
    except OSError as error:
        what = f"no inventory of the fleet: {error.strerror}"
        remedy = "write one, or name another: --fleet FILE (docs/how-to/fleet.md)"
    except ValidationError as error:
        what = file_error_words(faults_of(error, Inventory, data, text), path)
        remedy = "correct the lines above, then type the same command again"
    except (ValueError, RecursionError) as error:
        what = f"not TOML: {error}"
        remedy = "each machine has one table of its own: [hosts.NAME]; texts need quotes"
    raise FleetError(what, where=str(path), remedy=remedy)


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
            limit=MOST_LINE_BYTES,
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
        while await self._answers.read(PIECE_BYTES):
            pass
        await asyncio.wait([self._listening])
        await self._process.wait()

    async def _listen(self, errors: asyncio.StreamReader) -> None:
        while data := await errors.read(_END_BYTES):
            self._said = (self._said + data)[-_END_BYTES:]

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._lost_after_s / BEATS)
            self._orders.write(encode(Beat()))

    async def _in_time(self, act: Awaitable[_T]) -> _T:
        try:
            return await asyncio.wait_for(act, self._lost_after_s)
        except asyncio.TimeoutError:
            raise MachineLostError(f"it was silent for {self._lost_after_s:g} s") from None

    async def send(self, message: Order) -> None:
        """Give the machine an order. That the session ended is told by :meth:`receive`."""
        self._file_bytes = self._other_bytes = 0
        with suppress(ConnectionError):
            self._orders.write(encode(message))
            await self._in_time(self._orders.drain())

    async def receive(self) -> Answer:
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
                    answer = decode_answer(line)
            except ValueError as error:
                raise self.refused(str(error)) from None
            if not line.endswith(b"\n"):
                raise await self._ended()
            if isinstance(answer, File):
                self._file_bytes += len(line)
            else:
                self._other_bytes += len(line)
            if self._file_bytes > _MOST_FILE_BYTES or self._other_bytes > _MOST_OTHER_BYTES:
                raise self.refused("more than an answer can have")
            if isinstance(answer, Failed):
                raise FleetError(answer.what, where=answer.where, remedy=answer.remedy)
            if isinstance(answer, Beat):
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
