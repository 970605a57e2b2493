"""What the controller and a machine send each other: messages, and files that a scenario names.

A message is one line of JSON on the pipes of an SSH session. What a machine sends is data that
anybody may have written: it is bounded, checked against these types, and never unpickled.

Files are sent to each machine once and kept there by their content: the controller replaces each
file in the scenario's tables by a text with its digest, and a machine puts the path in its own
store there. Packages and folders must be on each machine.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from edgebench.errors import FleetError
from edgebench.identity import cache_folder, caller_identity
from edgebench.layers.disk import digest
from edgebench.safe_files import make_folder, open_to_read, replaced
from edgebench.text import safe_json

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
    path, found = stored_file(name), hashlib.sha256()
    make_folder(path.parent, parents=True)
    with replaced(path, 0o755) as file:
        for piece in data:
            file.write(piece)
            found.update(piece)
        if found.hexdigest() != path.parent.name:
            raise FleetError(f"{path.name} changed while it was sent", remedy="start the run again")


def _mapped(data: Any, change: Callable[[str], str]) -> Any:
    """Return the same data, each text in it changed."""
    if isinstance(data, str):
        return change(data)
    if isinstance(data, dict):
        return {key: _mapped(value, change) for key, value in data.items()}
    return [_mapped(value, change) for value in data] if isinstance(data, list) else data
