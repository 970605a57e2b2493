"""What the controller and a machine say to each other: messages, each one line of JSON.

They travel on the pipes of an SSH session. What a machine sends is data that anybody may have
written: it is bounded, checked against these types, and never unpickled.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from edgebench.text import safe_json

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
    """A machine's first message, which any version can read.

    ``machine`` is the same for all sessions that can't make trials at the same time.
    """

    machine: str
    edgebench: str
    python: str


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
