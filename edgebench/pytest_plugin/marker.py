"""What a test's ``edgebench`` marker asks for."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from edgebench.errors import UsageError
from edgebench.run.asked_limits import AskedLimits, asked_limits
from edgebench.text import choice_hint
from edgebench.units import parse_duration

_KEYS = ("memory", "swap", "slowdown", "timeout", "cores", "cpu_quota", "storage")


@dataclass(frozen=True)
class MarkedLimits:
    """The limits, the most slowdown allowed, and how long each of its runs may take."""

    asked: AskedLimits
    slowdown: float | None
    timeout_s: float | None


def marked_limits(mark: pytest.Mark) -> MarkedLimits:
    """The marker, checked.

    Raises:
        UsageError: an argument that is unknown or not possible; says which.
    """
    given = dict(mark.kwargs)
    if len(mark.args) > 1:
        raise _error("takes one value without a name: the memory", 'write memory="300M"')
    if mark.args:
        given.setdefault("memory", mark.args[0])
    if unknown := sorted(given.keys() - set(_KEYS)):
        raise _error(f"has no argument {unknown[0]!r}", choice_hint(unknown[0], _KEYS))
    memory, slowdown, timeout = (given.pop(key, None) for key in ("memory", "slowdown", "timeout"))
    if type(memory) not in (str, int):
        raise _error("sets no memory limit", 'add one: memory="300M", or "75%" of its demand')
    if slowdown is not None and not (type(slowdown) in (int, float) and slowdown > 1):
        raise _error(f"can't allow slowdown={slowdown!r}", "give a factor above 1: slowdown=2.0")
    asked = asked_limits(memory, **given)
    if asked.setting.memory_bytes is None and asked.share is None:
        raise _error("sets no memory limit", 'give a size instead of "max": memory="300M"')
    return MarkedLimits(asked, slowdown, None if timeout is None else parse_duration(timeout))


def _error(what: str, remedy: str) -> UsageError:
    return UsageError(f"the marker edgebench {what}", remedy=remedy)
