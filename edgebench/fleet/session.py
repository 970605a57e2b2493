"""The machines of a fleet: what they and the controller send each other, and the SSH session.

SSH alone connects the two: nothing listens, and there is no key but the user's own for SSH, which
stays on this computer. The machine gets orders and gives answers, nothing else. A message is one
line of JSON on the session's pipes. What a machine sends is data that anybody may have written: it
is bounded, checked against these types, and never unpickled.

Files that a scenario names are sent to each machine once and kept there by their content: the
controller replaces each file in the scenario's tables by a text with its digest, and a machine puts
the path in its own store there. Packages and folders must be on each machine.

``docs/verbs/fleet.md`` explains every key of the inventory, which lists the machines.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import shlex
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from pydantic import Field, ValidationError, ValidationInfo, field_validator

from edgebench.errors import FleetError
from edgebench.layers.disk import digest
from edgebench.processes import cache_folder, caller_identity, installed_program
from edgebench.safe_files import make_folder, open_to_read, read_text, replaced
from edgebench.scenario.keys import Seconds, TomlTable, faults_of, file_error_words, key
from edgebench.text import printable, safe_json

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


#: The most of one line, and of the pieces that files are cut into.
MOST_LINE_BYTES = 8 << 20
PIECE_BYTES = 1 << 20
#: So often within the time after which a side counts as lost it says that it is there.
BEATS = 4


class _Message(msgspec.Struct, frozen=True, tag_field="is", tag=str.lower):
    pass


class Beat(_Message, frozen=True):
    """Of both: the side is there. ``text``: what it does meanwhile, for people."""

    text: str = ""


class Open(_Message, frozen=True):
    """An order: get ready for a sweep. ``files``: those that the scenario's ``tables`` name."""

    tables: dict[str, Any]
    files: list[str]


class Piece(_Message, frozen=True):
    """The next piece of a file that the machine lacks; an empty one ends it."""

    data: bytes


class Make(_Message, frozen=True):
    """An order: make a trial. A walk goes by ``records``."""

    planned: dict[str, Any]
    demand_bytes: int = 0
    records: list[dict[str, Any]] = []


class Hello(_Message, frozen=True):
    """A machine's first message, which any version can read: its version of edgebench."""

    edgebench: str


class Lacking(_Message, frozen=True):
    """The files of the order that the machine doesn't have: they are sent, in this order."""

    files: list[str]


class Ready(_Message, frozen=True):
    """The machine is ready for trials; what is known of its networks, and of itself."""

    manifest: dict[str, Any]
    environment: dict[str, Any]


class File(_Message, frozen=True):
    """The next piece of a trial's file; ``kind`` is the folder that it belongs to."""

    kind: str
    trial: str
    data: bytes


class Record(_Message, frozen=True):
    """A record of the trial; ``last``: with it the trial is over."""

    record: dict[str, Any]
    last: bool


class Failed(_Message, frozen=True):
    """What was asked for can't be done there."""

    what: str
    where: str | None = None
    remedy: str | None = None


Order: TypeAlias = Beat | Open | Piece | Make
Answer: TypeAlias = Beat | Hello | Lacking | Ready | File | Record | Failed
decode_order = msgspec.json.Decoder(Order).decode


def encode(message: Order | Answer) -> bytes:
    """Return the message as a line."""
    return msgspec.json.encode(message) + b"\n"


def decode_answer(line: bytes) -> Answer:
    """Return an answer of a machine, its texts safe to print.

    ValueError: it is none, or too deep.
    """
    answer: Answer = msgspec.convert(safe_json(line), Answer)
    return answer


_MARK = "edgebench-content:"


def portable_tables(text: str, folder: Path) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return a scenario's tables as any machine can read them, and the files to send: name → path.

    ``text`` is the TOML file's; relative paths start at its folder, those of commands at ours.
    """
    files: dict[str, Path] = {}
    tables = tomllib.loads(text)
    workload = tables.get("workload", {})
    base = Path() if workload.get("kind") == "command" else folder

    def sent(text: str) -> str:
        name, colon, rest = text.partition(":")
        for path, tail in ((base / text, ""), (base / name, colon + rest)):
            # What has an absolute path, as a program, is the machine's own.
            with suppress(OSError, ValueError):
                if not Path(text).is_absolute() and path.is_file():
                    stored = f"{digest(path)}/{path.name}"
                    files[stored] = path
                    return f"{_MARK}{stored}{tail}"
        return text

    return {**tables, "workload": _mapped(workload, sent)}, files


def stored_tables(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Those tables with this machine's paths."""

    def placed(text: str) -> str:
        return str(stored_file(text[len(_MARK) :])) if text.startswith(_MARK) else text

    return {**tables, "workload": _mapped(tables.get("workload"), placed)}


def stored_file(name: str) -> Path:
    """Where this machine has a file (``digest/name``)."""
    return cache_folder(caller_identity()) / "fleet" / "content" / name


def pieces(path: Path) -> Iterator[bytes]:
    """Yield a file, piece by piece."""
    with open_to_read(path) as file:
        while data := file.read(PIECE_BYTES):
            yield data


def store_file(name: str, data: Iterable[bytes]) -> None:
    """Store a file whole or not at all; FleetError: what arrived is not what the digest is of."""
    path, content = stored_file(name), hashlib.sha256()
    make_folder(path.parent, parents=True)
    with replaced(path, 0o755) as file:
        for piece in data:
            file.write(piece)
            content.update(piece)
        if content.hexdigest() != path.parent.name:
            raise FleetError(f"{path.name} changed while it was sent", remedy="start the run again")


def _mapped(data: Any, change: Callable[[str], str]) -> Any:
    """Return the same data, each text in it changed."""
    if isinstance(data, str):
        return change(data)
    if isinstance(data, dict):
        return {key: _mapped(value, change) for key, value in data.items()}
    return [_mapped(value, change) for value in data] if isinstance(data, list) else data


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
            *self._host.command("edgebench.fleet.sweep", str(self._lost_after_s)),
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
