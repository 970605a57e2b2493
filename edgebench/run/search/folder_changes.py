"""Which files a program changed in the folder that it ran in."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path

from edgebench.safe_folders import real_path

#: Temporary folders of edgebench, also of others that run here, lie in ``/tmp`` and beside swap.
_TEMPORARY = re.compile(r"edgebench-(?:(?:[a-z]+-)*[0-9a-f]{12}|state-[0-9]+)")
#: In a folder with more entries than this, only so many are looked at.
_MOST = 10_000


class FolderChanges:
    """What is in a folder now, to be compared with what is there later; not what lies deeper.

    Args:
        folder: where the program runs.
        own: a folder of our own, whose changes don't count.
    """

    def __init__(self, folder: Path, own: Path) -> None:
        self._folder = folder
        self._own = real_path(own)
        self._before = self._state()

    def names(self) -> list[str]:
        """Files and folders that were made, changed or removed since."""
        now = self._state()
        changed = {name for name, state in now.items() if self._before.get(name) != state}
        return sorted(changed | (self._before.keys() - now.keys()))

    def _state(self) -> dict[str, tuple[int, int]]:
        states: dict[str, tuple[int, int]] = {}
        try:
            with os.scandir(self._folder) as entries:
                for entry in itertools.islice(entries, _MOST):
                    # Results may lie in a folder below one that is here.
                    is_own = self._own.is_relative_to(real_path(entry.path))
                    if not is_own and not _TEMPORARY.fullmatch(entry.name):
                        status = entry.stat(follow_symlinks=False)
                        states[entry.name] = status.st_mtime_ns, status.st_size
        except OSError:
            return {}
        return states
