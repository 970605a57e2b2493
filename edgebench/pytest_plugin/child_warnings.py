"""Warnings of a test that ran in another process, shown as those of a test here."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

import msgspec
import pytest


class ChildWarning(msgspec.Struct, frozen=True):
    """A warning as the other process sent it. ``category``: its module and its name."""

    message: str
    category: tuple[str, str]
    filename: str
    lineno: int
    nodeid: str


def warn_again(item: pytest.Item, said: Sequence[ChildWarning]) -> None:
    """Report each warning as if it came up in this process."""
    for one in said:
        category = _category(*one.category)
        message = warnings.WarningMessage(
            message=_made(category, one.message),
            category=category,
            filename=one.filename,
            lineno=one.lineno,
        )
        item.ihook.pytest_warning_recorded.call_historic(
            kwargs={
                "warning_message": message,
                "when": "runtest",
                "nodeid": one.nodeid,
                "location": None,
            }
        )


def _category(module: str, kind: str) -> type[Warning]:
    """The category if this process has it, else one of the same name.

    The name was chosen by a process with fewer rights: nothing is imported for it, and what is no
    warning is not called.
    """
    found = vars(sys.modules[module]).get(kind) if module in sys.modules else None
    if isinstance(found, type) and issubclass(found, Warning):
        return found
    return type(kind, (UserWarning,), {"__module__": module})


def _made(category: type[Warning], message: str) -> Warning:
    try:
        return category(message)
    except Exception:
        # It takes more than a message.
        return UserWarning(message)
