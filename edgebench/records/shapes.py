"""Whether a record read back has the shape in which records are written.

A file may come from anywhere: each value is of its type, and each number one to count with.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_args

from edgebench.records.records import LimitSetting, Outcome, PhaseSum, SamplerReport, TrialRecord

_OUTCOMES = frozenset(get_args(Outcome))
#: What fits a column of 64 bits; no byte or nanosecond of a real machine is beyond.
LARGEST = 2**63 - 1
Check = Callable[[Any], bool]


def is_count(value: object) -> bool:
    """A whole number of 64 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and -LARGEST <= value <= LARGEST


def is_number(value: object) -> bool:
    """A number that is neither endless nor none, nor beyond 64 bits."""
    if isinstance(value, float):
        return math.isfinite(value) and -LARGEST <= value <= LARGEST
    return is_count(value)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_table(value: object) -> bool:
    return isinstance(value, dict)


_CHECKS: dict[str, Check] = {
    "int": is_count,
    "float": is_number,
    "str": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "Outcome": lambda value: isinstance(value, str) and value in _OUTCOMES,
    "list[str]": _is_texts,
    "dict[str, Any]": _is_table,
    "dict[str, str]": _is_table,
}


def _checks(kind: Any) -> tuple[tuple[str, Check, bool], ...]:
    """Each field's name, its check, and whether it may be None."""
    found = []
    for one in fields(kind):
        name, _, optional = str(one.type).partition(" | ")
        if name in _CHECKS:
            found.append((one.name, _CHECKS[name], optional == "None"))
    return tuple(found)


_SHAPES = {k: _checks(k) for k in (TrialRecord, LimitSetting, PhaseSum, SamplerReport)}


def _has_shape(made: Any) -> bool:
    for name, check, optional in _SHAPES[type(made)]:
        value = getattr(made, name)
        if not (optional and value is None) and not check(value):
            return False
    return True


def is_whole_limit(limits: LimitSetting) -> bool:
    """Whether each limit is what a limit is."""
    return _has_shape(limits)


def is_whole(record: TrialRecord) -> bool:
    """Whether all that figures are made of is what it should be."""
    parts: tuple[LimitSetting | PhaseSum | SamplerReport, ...] = (record.limits, *record.phases)
    if record.sampler is not None:
        parts = (*parts, record.sampler)
    return (
        isinstance(record.sampler, SamplerReport | None)
        and _has_shape(record)
        and all(map(_has_shape, parts))
        and all(phase.passes > 0 for phase in record.phases)
    )
