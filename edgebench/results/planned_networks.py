"""Which networks sweeps were planned with, without reading their trials."""

from __future__ import annotations

import json
from pathlib import Path

from edgebench.results.layout import RESOLVED
from edgebench.results.sweep_reader import sweep_folders
from edgebench.safe_reading import read_file


def may_have(path: Path, network: str) -> bool:
    """Whether a sweep at or below a path may have trials of the network of this name.

    Raises:
        ResultsError: no sweep there.
    """
    written = json.dumps(network).encode()
    return any(_names(folder / RESOLVED, written) for folder in sweep_folders(path))


def _names(resolved: Path, written: bytes) -> bool:
    try:
        return not resolved.is_file() or written in read_file(resolved)
    except OSError:
        # Whoever reads all of it says what is wrong.
        return True
