"""What a file holds, in a few characters."""

from __future__ import annotations

import hashlib
from pathlib import Path

from edgebench.errors import WorkloadError


def digest(checkpoint: Path) -> str:
    """SHA-256 of a checkpoint's file, so that a changed one is not taken for the same.

    Raises:
        WorkloadError: it can't be read.
    """
    found = hashlib.sha256()
    try:
        with checkpoint.open("rb") as file:
            while chunk := file.read(1 << 20):
                found.update(chunk)
    except OSError as error:
        raise WorkloadError(
            f"a checkpoint can't be read: {error.strerror}", where=str(checkpoint)
        ) from error
    return found.hexdigest()
