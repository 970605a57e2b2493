"""One trial of a Python function, in a fresh interpreter below the limit."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from edgebench.errors import UsageError
from edgebench.extras import install
from edgebench.identity import caller_identity
from edgebench.safe_files import open_empty
from edgebench.workloads import function_call as caller

_BY_REFERENCE = "define it in a module that can be imported, or: {install}"
_NO_PICKLE = (
    "a function is sent to a fresh process: give it no open files, locks, connections or "
    "generators, but what is needed to make them"
)


def function_settings(function: Callable[[], object], folder: Path) -> dict[str, Any]:
    """Return the settings of a trial that calls the function, which is stored in the folder.

    Raises:
        UsageError: it can't be sent to another process.
    """
    file = folder / "function.pickle"
    data = _pickled(function)
    # Readable to nobody but the user that the workload runs as.
    with os.fdopen(open_empty(file, 0o600, owner=caller_identity()), "wb") as opened:
        opened.write(pickle.dumps([entry or str(Path.cwd()) for entry in sys.path]) + data)
    return {
        "kind": "function",
        "function": name_of(function),
        "script": str(Path(caller.__file__)),
        "argument": str(file),
    }


def name_of(function: Callable[..., object]) -> str:
    """``module.function``, as a record calls it; a partial is named by what it calls."""
    inner = getattr(function, "func", function)
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    module = getattr(inner, "__module__", None)
    return name if module in (None, "__main__") else f"{module}.{name}"


def _pickled(function: Callable[[], object]) -> bytes:
    """Return the function as bytes.

    By name if a module has it, else (in a notebook, say) by value.
    """
    by_value = _cloudpickle()
    try:
        if by_value is not None:
            return bytes(by_value.dumps(function))
        data = pickle.dumps(function)
    except Exception as error:
        remedy = _NO_PICKLE
        if by_value is None:
            remedy = _BY_REFERENCE.format(install=install("cloudpickle"))
        raise UsageError(
            f"{name_of(function)} can't be sent to another process: {error}", remedy=remedy
        ) from error
    if b"__main__" in data:
        raise UsageError(
            f"{name_of(function)} is defined in this notebook or script, which another process "
            "can't import",
            remedy=_BY_REFERENCE.format(install=install("cloudpickle")),
        )
    return data


def _cloudpickle() -> ModuleType | None:
    try:
        import cloudpickle
    except ModuleNotFoundError:
        return None
    found: ModuleType = cloudpickle
    return found
