"""Warnings of a test that ran in another process, shown as those of a test here."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest


def warn_again(item: pytest.Item, said: list[dict[str, Any]]) -> None:
    """Report each warning as if it came up in this process."""
    for one in said:
        message = warnings.WarningMessage(
            message=_category(one["category"])(one["message"]),
            category=_category(one["category"]),
            filename=one["filename"],
            lineno=one["lineno"],
        )
        item.ihook.pytest_warning_recorded.call_historic(
            kwargs={
                "warning_message": message,
                "when": "runtest",
                "nodeid": one["nodeid"],
                "location": None,
            }
        )


def _category(name: list[str]) -> type[Warning]:
    """The category, if it can be imported and takes a message alone; else a plain warning."""
    module, kind = name
    try:
        found = getattr(importlib.import_module(module), kind)
        found("message")
    except Exception:
        return UserWarning
    return found if isinstance(found, type) and issubclass(found, Warning) else UserWarning
