"""A finished sweep that answers the same question: shown again, unless its workload changed."""

from __future__ import annotations

import contextlib
import itertools
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgebench.errors import ResultsError
from edgebench.processes import find_program
from edgebench.records import TrialRecord
from edgebench.results.folder import find_sweep
from edgebench.results.layout import ENVIRONMENT
from edgebench.results.sweep_reader import read_sweep
from edgebench.safe_folders import real_path, walk
from edgebench.scenario.points import Point

#: After a day the machine is another one. In a folder with more files than this, only so many are
#: looked at.
_DAY_S, _MOST_FILES = 24 * 3600.0, 5_000


def finished_sweep(
    root: Path, device: str, fingerprint: str, points: Sequence[Point]
) -> tuple[Path, list[TrialRecord]] | None:
    """Return the newest finished sweep of that meaning, if what it ran did not change since.

    An unfinished sweep that is newer comes first: it is continued instead. None: there is no such
    sweep, or it is a day old.
    """
    found = find_sweep(root, device, fingerprint, finished=True)
    unfinished = find_sweep(root, device, fingerprint)
    if found is None or (unfinished and unfinished.name > found.name):
        return None
    with contextlib.suppress(OSError, ResultsError):
        began_s = (found / ENVIRONMENT).stat().st_mtime
        is_old = time.time() - began_s > _DAY_S
        if not is_old and not _is_changed(points[0].settings, real_path(root), began_s):
            return found, list(read_sweep(found).records)
    return None


def _is_changed(settings: Mapping[str, Any], results: Path, began_s: float) -> bool:
    """Whether a file of a program is newer; a network's content is in the sweep's meaning."""
    if settings["kind"] != "command":
        return False
    folder = Path(settings.get("cwd") or Path.cwd())
    named = [*map(str, settings["command"]), *settings.get("files", ())]
    named += [one for one in (find_program(named[0]), settings.get("stdin")) if one]
    paths = itertools.chain((folder / one for one in named), _files_below(folder, results))
    return any(_changed_s(path) > began_s for path in paths)


def _files_below(folder: Path, results: Path) -> Iterator[Path]:
    """Files of the program's folder, as its modules, but for results."""
    found = (
        top / name
        for top, names in walk(folder)
        if not real_path(top).is_relative_to(results)
        for name in names
    )
    return itertools.islice(found, _MOST_FILES)


def _changed_s(path: Path) -> float:
    # No file, no right to see it, or a name that is too long.
    with contextlib.suppress(OSError, ValueError):
        seen = path.stat()
        if stat.S_ISREG(seen.st_mode):
            return seen.st_mtime
    return 0.0
