"""Files made from results, written beside them: fits and figures. They can be made again."""

from __future__ import annotations

import re
from pathlib import Path

from edgebench.errors import ResultsError
from edgebench.safe_files import make_folder, write_whole

UNWRITABLE_REMEDY = (
    "copy the sweep's folder to a folder that you can write to, and name that: cp -r"
)


def write_derived(folder: Path, name: str, data: bytes) -> Path:
    """Put one file whole into a folder, made if need be, and return its path.

    Raises:
        ResultsError: the folder can't be written.
        UnsafePathError: what is there is not a regular file.
    """
    try:
        make_folder(folder, parents=True)
    except OSError as error:
        raise _unwritable(folder / name, error) from None
    return write_file(folder / name, data)


def write_file(path: Path, data: bytes, remedy: str = UNWRITABLE_REMEDY) -> Path:
    """Put one file whole into a folder that is there, and return its path.

    Raises:
        ResultsError: the folder can't be written.
        UnsafePathError: what is there is not a regular file.
    """
    try:
        return write_whole(path, data)
    except OSError as error:
        raise _unwritable(path, error, remedy) from None


def _unwritable(path: Path, error: OSError, remedy: str = UNWRITABLE_REMEDY) -> ResultsError:
    what = f"can't write {path.name}: {error.strerror}"
    return ResultsError(what, where=str(path.parent), remedy=remedy)


def file_stem(*words: object) -> str:
    """Words as a file's name of letters, digits, ``.``, ``+``, ``_`` and ``-`` only."""
    cleaned = (re.sub(r"[^A-Za-z0-9.+_]+", "-", str(word)).strip("-.") for word in words)
    return "-".join(word for word in cleaned if word)[:150]
