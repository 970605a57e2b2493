"""Files made from results, written beside them: fits and figures. They can be made again."""

from __future__ import annotations

import os
import re
from pathlib import Path

from edgebench.errors import ResultsError
from edgebench.results.layout import write_atomically

UNWRITABLE_REMEDY = "copy the sweep's folder to a place of yours and name that"


def write_derived(folder: Path, name: str, data: bytes) -> Path:
    """Put one file whole into a folder, made if need be, and return its path.

    Raises:
        ResultsError: the folder can't be written.
    """
    try:
        folder.mkdir(exist_ok=True)
        _give_to_owner_of(folder.parent, folder)
    except OSError as error:
        raise _unwritable(folder / name, error) from None
    return write_file(folder / name, data)


def write_file(path: Path, data: bytes) -> Path:
    """Put one file whole into a folder that is there, and return its path.

    Raises:
        ResultsError: the folder can't be written.
    """
    try:
        write_atomically(path, data)
        _give_to_owner_of(path.parent, path)
    except OSError as error:
        raise _unwritable(path, error) from None
    return path


def _unwritable(path: Path, error: OSError) -> ResultsError:
    return ResultsError(
        f"can't write {path.name}: {error.strerror}",
        where=str(path.parent),
        remedy=UNWRITABLE_REMEDY,
    )


def _give_to_owner_of(folder: Path, made: Path) -> None:
    """Under sudo, what is made belongs to whom the folder that it is in belongs."""
    if os.geteuid() == 0:
        owner = folder.stat()
        os.chown(made, owner.st_uid, owner.st_gid)


def file_stem(*words: object) -> str:
    """Words as a file's name of letters, digits, ``.``, ``+``, ``_`` and ``-`` only."""
    cleaned = (re.sub(r"[^A-Za-z0-9.+_]+", "-", str(word)).strip("-.") for word in words)
    return "-".join(word for word in cleaned if word)[:150]
