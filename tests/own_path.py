"""Where a Python that is started from any folder finds edgebench."""

from __future__ import annotations

import os
from pathlib import Path

import edgebench


def python_path() -> str:
    """``PYTHONPATH`` for it."""
    parent = str(Path(edgebench.__file__).resolve().parents[1])
    return os.pathsep.join(filter(None, [parent, os.environ.get("PYTHONPATH")]))
