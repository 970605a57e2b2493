"""Files that a scenario names, sent to each machine once: they are kept by their content.

The controller replaces each file in the scenario's tables by a text with its digest; a machine puts
the path in its own store there. Only files are sent; packages and folders must be on each machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.cache import cache_folder
from edgebench.errors import FleetError
from edgebench.identity import caller_identity
from edgebench.layers.disk import digest
from edgebench.safe_files import make_folder, open_file, remove_file, rename
from edgebench.safe_reading import open_to_read

#: How much is sent at once.
PIECE_BYTES = 8 << 20
_MARK = "edgebench-content:"


@dataclass(frozen=True)
class SentScenario:
    """A scenario's tables as any machine can read them, and the files to send: digest → path."""

    tables: dict[str, Any]
    files: Mapping[str, Path]


def sent_scenario(tables: Mapping[str, Any], folder: Path) -> SentScenario:
    """A scenario's tables with digests in place of files.

    Args:
        tables: the TOML file's.
        folder: the file's, at which relative paths start; those of commands start at the current.
    """
    files: dict[str, Path] = {}
    workload = tables.get("workload", {})
    base = Path() if workload.get("kind") == "command" else folder

    def replaced(text: str) -> str:
        name, colon, rest = text.partition(":")
        for path, tail in ((base / text, ""), (base / name, colon + rest)):
            # What has an absolute path, as a program, is the machine's own.
            if not Path(text).is_absolute() and _is_file(path):
                files[found := digest(path)] = path
                return f"{_MARK}{found}/{path.name}{tail}"
        return text

    return SentScenario({**tables, "workload": _mapped(workload, replaced)}, files)


def stored_tables(tables: Mapping[str, Any]) -> dict[str, Any]:
    """A sent scenario's tables with this machine's paths."""

    def placed(text: str) -> str:
        return f"{_store()}/{text[len(_MARK) :]}" if text.startswith(_MARK) else text

    found: dict[str, Any] = _mapped(dict(tables), placed)
    return found


def lacking_files(names: Iterable[str]) -> list[str]:
    """Those of these files (``digest/name``) that this machine doesn't have."""
    return [name for name in names if not (_store() / name).is_file()]


def store_piece(name: str, offset: int, data: bytes, total_bytes: int) -> None:
    """Store a piece of a file (``digest/name``); the last one is followed by a check of it all.

    Raises:
        FleetError: what arrived is not what was sent.
        OSError: it can't be written, as on a full disk.
    """
    path = _store() / name
    part = path.with_name(f".{os.getpid()}.part")
    make_folder(path.parent, parents=True)
    fd = open_file(part, os.O_WRONLY | os.O_CREAT, 0o755)
    try:
        os.pwrite(fd, data, offset)
        if offset + len(data) < total_bytes:
            return
        os.ftruncate(fd, total_bytes)
        os.fsync(fd)
    except OSError:
        remove_file(part)
        raise
    finally:
        os.close(fd)
    if digest(part) != path.parent.name:
        remove_file(part)
        raise FleetError(f"{path.name} changed while it was sent", remedy="start the run again")
    rename(part, path.name)


def pieces(path: Path) -> Iterator[tuple[int, bytes]]:
    """Each piece of a file with its offset; one of no bytes for an empty file."""
    with open_to_read(path) as file:
        offset, data = 0, file.read(PIECE_BYTES)
        yield offset, data
        while data:
            offset += len(data)
            if data := file.read(PIECE_BYTES):
                yield offset, data


def _store() -> Path:
    return cache_folder(caller_identity()) / "fleet" / "content"


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _mapped(data: Any, change: Callable[[str], str]) -> Any:
    """The same data, each text in it changed."""
    if isinstance(data, str):
        return change(data)
    if isinstance(data, Mapping):
        return {key: _mapped(value, change) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_mapped(value, change) for value in data]
    return data
