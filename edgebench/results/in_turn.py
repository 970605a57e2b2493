"""Which two sweeps are of two versions that were run in turn: ``in_turn`` in ``resolved.json``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.errors import ResultsError
from edgebench.results.layout import RESOLVED, TRIALS, read_json

KEY = "in_turn"
OLD, NEW = "old", "new"


@dataclass(frozen=True)
class InTurn:
    """One of two sweeps whose trials were made in turn.

    ``pair`` names the two, ``version`` is ``old`` or ``new``, ``points`` are this sweep's → those
    of the other one that they are compared with.
    """

    pair: str
    version: str
    points: Mapping[str, str]

    def is_beside(self, other: InTurn | None) -> bool:
        """Whether the other one is of the sweep that this one was made in turn with."""
        return other is not None and other.pair == self.pair and other.version != self.version


def in_turn_of(resolved: Mapping[str, Any]) -> InTurn | None:
    """What a sweep's ``resolved.json`` says; None: it was made alone, or that is damaged."""
    said = resolved.get(KEY)
    if not isinstance(said, dict):
        return None
    pair, version, points = (said.get(key) for key in ("pair", "version", "points"))
    if not isinstance(pair, str) or version not in (OLD, NEW) or not isinstance(points, dict):
        return None
    if not all(isinstance(other, str) for other in points.values()):
        return None
    return InTurn(pair, str(version), points)


def sweep_in_turn(parent: Path, pair: str, version: str) -> Path | None:
    """The folder of that version of a pair, among a device's; None: there is none."""
    for path, found in _in_turn_below(parent):
        if (found.pair, found.version) == (pair, version):
            return path
    return None


def versions_in_turn(path: Path) -> tuple[Path, Path] | None:
    """The old and the new version's folder, of either; None: it was made alone.

    Raises:
        ResultsError: the other one isn't beside it.
    """
    found = in_turn_of(read_json(path / RESOLVED))
    if found is None:
        return None
    other = OLD if found.version == NEW else NEW
    beside = sweep_in_turn(path.resolve().parent, found.pair, other)
    if beside is None:
        raise ResultsError(
            f"the {other} version's sweep is gone: this one was made in turn with it",
            where=str(path),
            remedy="name both: edgebench compare OLD NEW",
        )
    return (beside, path) if other == OLD else (path, beside)


def _in_turn_below(parent: Path) -> Iterator[tuple[Path, InTurn]]:
    """Newest first; folders that are damaged or made by a newer version are passed over."""
    folders = [path for path in parent.glob("[!.]*") if (path / TRIALS).is_file()]
    for path in sorted(folders, reverse=True):
        with contextlib.suppress(ResultsError):
            if found := in_turn_of(read_json(path / RESOLVED)):
                yield path, found
