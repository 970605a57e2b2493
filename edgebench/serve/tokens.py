"""The token that opens the page, and the file that holds it for the user's own scripts."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from edgebench.cgroups.leftovers import clear_token_files, state_folder
from edgebench.errors import MachineError
from edgebench.safe_files import remove_empty_folder, remove_file, write_whole


def new_token() -> str:
    """A token of 256 random bits."""
    return secrets.token_urlsafe(32)


@contextlib.contextmanager
def token_file(port: int, token: str) -> Iterator[Path]:
    """The file with the token of the server on a port, which exists while the block runs.

    Only its owner can read it. Files that killed servers left are removed.

    Raises:
        MachineError: it can't be written.
    """
    text = f"{token}\n"
    with contextlib.ExitStack() as kept:
        kept.callback(_remove_own, port, text)
        try:
            clear_token_files(state_folder())
            path = _written_and_locked(port, text, kept)
        except OSError as error:
            raise MachineError(
                f"the token's file can't be written: {error.strerror}",
                where=str(state_folder()),
                remedy="set XDG_RUNTIME_DIR to a folder of your own",
            ) from error
        yield path


def _path(port: int) -> Path:
    return state_folder() / f"serve-{port}.token"


def _remove_own(port: int, text: str) -> None:
    """Remove it; a server on the same port of another address may have written its own."""
    path = _path(port)
    with contextlib.suppress(OSError):
        if path.read_text() == text:
            remove_file(path)
    with contextlib.suppress(OSError):
        remove_empty_folder(path.parent)


def _written_and_locked(port: int, text: str, kept: contextlib.ExitStack) -> Path:
    while True:
        path = _path(port)
        # A sweep that ends may remove the empty folder at any moment, and a server that starts the
        # file until it is locked.
        with contextlib.suppress(FileNotFoundError):
            remove_file(path)
            file = kept.enter_context(write_whole(path, text.encode(), 0o600).open())
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink:
                return path
