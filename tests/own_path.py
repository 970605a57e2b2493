"""Where a Python that is started from any folder finds edgebench."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

import edgebench


def python_path() -> str:
    parent = str(Path(edgebench.__file__).resolve().parents[1])
    return os.pathsep.join(filter(None, [parent, os.environ.get("PYTHONPATH")]))


def call(*words: str | Path, folder: Path | None = None, **more: str) -> CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "edgebench", *map(str, words)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": python_path(), **more},
        capture_output=True,
        text=True,
        check=False,
    )
