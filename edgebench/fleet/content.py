"""Files that a scenario names, sent to each machine once: they are kept by their content.

The controller replaces each file in the scenario's tables by a text with its digest; a machine puts
the path in its own store there. Only files are sent; packages and folders must be on each machine.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from edgebench.cache import cache_folder
from edgebench.errors import FleetError
from edgebench.fleet.messages import PIECE_BYTES
from edgebench.identity import caller_identity
from edgebench.layers.disk import digest
from edgebench.safe_files import make_folder, replaced
from edgebench.safe_reading import open_to_read

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

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
