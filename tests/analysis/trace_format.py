"""The Trace Event Format, as far as a trace of ours uses it: anything else is refused."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, TypeAdapter


class _Event(BaseModel):
    """What the Trace Event Format asks of every event; anything it doesn't name is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, Field(min_length=1)]
    pid: int
    tid: int
    ts: NonNegativeFloat | int


class _Complete(_Event):
    ph: Literal["X"]
    cat: str
    dur: NonNegativeFloat
    args: dict[str, Any]


class _Counter(_Event):
    ph: Literal["C"]
    args: Annotated[dict[str, int], Field(min_length=1)]


class _Instant(_Event):
    ph: Literal["i"]
    cat: str
    s: Literal["g", "p", "t"]
    args: dict[str, Any]


class _NameArgs(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    name: str


class _SortArgs(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    sort_index: int


class _Metadata(_Event):
    ph: Literal["M"]
    name: Literal["process_name", "thread_name", "process_sort_index"]
    args: _NameArgs | _SortArgs


class _Trace(BaseModel):
    """The JSON Object Format."""

    model_config = ConfigDict(extra="forbid", strict=True)

    traceEvents: list[  # noqa: N815 - the format's own word
        Annotated[_Complete | _Counter | _Instant | _Metadata, Field(discriminator="ph")]
    ]
    displayTimeUnit: Literal["ms", "ns"]  # noqa: N815 - the format's own word
    otherData: dict[str, Any]  # noqa: N815 - the format's own word


def checked(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a trace that is as the format wants it: by schema, order and nesting."""
    text = json.dumps(trace, allow_nan=False)
    TypeAdapter(_Trace).validate_json(text)
    events: list[dict[str, Any]] = json.loads(text)["traceEvents"]
    threads: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in events:
        if event["ph"] == "X":
            threads.setdefault((event["pid"], event["tid"]), []).append(event)
    for spans in threads.values():
        open_ends: list[float] = []
        for span in spans:
            end = span["ts"] + span["dur"]
            while open_ends and open_ends[-1] <= span["ts"] + 1e-3:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + 1e-3, f"{span} is not nested"
            open_ends.append(end)
        assert all(one["ts"] <= other["ts"] for one, other in pairwise(spans))
    return events
