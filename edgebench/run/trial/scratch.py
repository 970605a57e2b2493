"""A temporary folder that is gone at the end, even where this process is killed."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgebench.cgroups.leftovers import Ownership
from edgebench.identity import caller_identity
from edgebench.safe_files import make_private_folder
from edgebench.safe_folders import is_own_place


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a new private folder, removed at the end, or after a crash by the next start.

    Raises:
        MachineError: what is made can't be recorded.
    """
    with Ownership() as ownership:
        yield claimed_folder(ownership)


def claimed_folder(ownership: Ownership) -> Path:
    """Return a new private folder, removed with all else that is owned.

    Under sudo the workload reaches the files in it that are the caller's, and can add none.

    Raises:
        MachineError: what is made can't be recorded.
    """
    place = Path(tempfile.gettempdir())
    if os.geteuid() == 0 and not is_own_place(place):
        # A folder of sudo's caller, who could put a link in the place of ours.
        place = Path("/tmp")  # noqa: S108 - a private folder is made in it
    folder = place / f"edgebench-{secrets.token_hex(6)}"
    ownership.claim("temp-folder", str(folder))
    make_private_folder(folder, reachable=caller_identity() is not None)
    return folder
