"""A cgroup for each worker of xdist: tests with ``own_cgroup`` can run beside each other."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.parent import find_parent
from edgebench.errors import EdgebenchError

_undo = contextlib.ExitStack()


def make_cgroup(worker: str) -> list[str]:
    """The files by which a process joins it; none where no cgroup can be made."""
    try:
        parent = find_parent(_undo.enter_context(Ownership()))
        made = parent.create(f"{os.getpid()}-{worker}")
    except EdgebenchError:
        # Tests that need one are skipped, and say why.
        return []
    _undo.callback(made.remove)
    return [str(file) for file in made.join_files()]


def join(files: Iterable[str]) -> None:
    """Move this process there."""
    for file in files:
        Path(file).write_text("0")


def remove_cgroups() -> None:
    """Remove what was made, once the workers have ended."""
    _undo.close()
