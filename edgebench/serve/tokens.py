"""The token that opens the page, and the file that holds it for the user's own scripts."""

from __future__ import annotations

import contextlib
import fcntl
import secrets
from collections.abc import Iterator
from pathlib import Path

from edgebench.cgroups.leftovers import state_folder
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
    try:
        _remove_unlocked()
        path = _written(port, text)
        kept = path.open()
        fcntl.flock(kept, fcntl.LOCK_EX)
    except OSError as error:
        raise MachineError(
            f"the token's file can't be written: {error.strerror}",
            where=str(state_folder()),
            remedy="set XDG_RUNTIME_DIR to a folder of your own",
        ) from error
    try:
        yield path
    finally:
        kept.close()
        # A server on the same port of another address may have written its own.
        with contextlib.suppress(OSError):
            if path.read_text() == text:
                remove_file(path)
            remove_empty_folder(path.parent)


def _remove_unlocked() -> None:
    """The kernel frees a server's lock when it ends, however it ends."""
    for path in state_folder().glob("serve-*.token"):
        with contextlib.suppress(OSError), path.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_file(path)


def _written(port: int, text: str) -> Path:
    while True:
        path = state_folder() / f"serve-{port}.token"
        # A sweep that ends may remove the empty folder at any moment.
        with contextlib.suppress(FileNotFoundError):
            remove_file(path)
            return write_whole(path, text.encode(), 0o600)
