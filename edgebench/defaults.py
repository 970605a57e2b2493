"""A project's defaults: the table ``[tool.edgebench]`` of a ``pyproject.toml``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from edgebench.boards.storage import parse_storage
from edgebench.errors import UsageError
from edgebench.safe_reading import read_text
from edgebench.text import did_you_mean
from edgebench.units import parse_share, parse_size, parse_swap

_FILE = "pyproject.toml"


def project_defaults(folder: Path) -> dict[str, str]:
    """What stands there, checked: ``results``, ``memory``, ``swap`` and ``storage``, as given.

    Raises:
        UsageError: the file is no TOML, or a key is unknown or holds what it can't.
    """
    path = folder / _FILE
    try:
        text = read_text(path)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except UnicodeDecodeError as error:
        raise UsageError("not UTF-8 text", where=str(path), remedy="save it as UTF-8") from error
    if "edgebench" not in text:
        return {}
    # Lazy: most folders have no such table.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        tool = tomllib.loads(text).get("tool", {})
    except ValueError as error:
        remedy = "correct that line, then type the same again"
        raise UsageError(f"not TOML: {error}", where=str(path), remedy=remedy) from error
    table = tool.get("edgebench", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise UsageError("should be a table", where=f"{path}, key tool.edgebench", remedy=_EXAMPLE)
    for key, value in table.items():
        _check(path, key, value)
    return table


def _check(path: Path, key: str, value: object) -> None:
    where = f"{path}, key tool.edgebench.{key}"
    if key not in _CHECKS:
        guess = did_you_mean(key, _CHECKS)
        remedy = f"did you mean {guess!r}?" if guess else f"one of {', '.join(_CHECKS)}"
        raise UsageError(f"there is no key {key!r}", where=where, remedy=remedy)
    check, example = _CHECKS[key]
    if not isinstance(value, str):
        remedy = f'write it as {key} = "{example}"'
        raise UsageError("should be text in quotes", where=where, remedy=remedy)
    try:
        check(value)
    except UsageError as error:
        raise UsageError(error.what, where=where, remedy=error.remedy) from error


def _check_results(text: str) -> None:
    # A folder's file must not choose where root writes.
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        remedy = 'name one below it, as "measured"; --results takes any other'
        raise UsageError(f"{text!r} is no folder below this one", remedy=remedy)


def _check_memory(text: str) -> None:
    if parse_share(text) is None:
        parse_size(text)


#: Key → what refuses a wrong value, and an example.
_CHECKS: dict[str, tuple[Callable[[str], object], str]] = {
    "results": (_check_results, "measured"),
    "memory": (_check_memory, "300M"),
    "swap": (parse_swap, "2G"),
    "storage": (parse_storage, "read=90MB/s"),
}
_EXAMPLE = 'write [tool.edgebench] on a line, and below it memory = "300M"'
