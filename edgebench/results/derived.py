"""Files made from results, written beside them: fits, figures, and what ``advise`` answered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from edgebench.errors import ResultsError
from edgebench.results.layout import ADVICE, json_bytes, read_json
from edgebench.safe_files import make_folder, write_whole

UNWRITABLE_REMEDY = (
    "copy the sweep's folder to a folder that you can write to, and name that: cp -r"
)


def write_derived(folder: Path, name: str, data: bytes) -> Path:
    """Put one file whole into a folder, made if need be, and return its path.

    Raises:
        ResultsError: the folder can't be written.
        UnsafePathError: what is there is not a regular file.
    """
    return write_file(folder / name, data, make=True)


def write_file(
    path: Path, data: bytes, remedy: str = UNWRITABLE_REMEDY, *, make: bool = False
) -> Path:
    """Put one file whole into a folder that is there, or is made, and return its path.

    Raises:
        ResultsError: the folder can't be written.
        UnsafePathError: what is there is not a regular file.
    """
    try:
        if make:
            make_folder(path.parent, parents=True)
        return write_whole(path, data)
    except OSError as error:
        what = f"can't write {path.name}: {error.strerror}"
        raise ResultsError(what, where=str(path.parent), remedy=remedy) from None


def file_stem(*words: object) -> str:
    """Words as a file's name of letters, digits, ``.``, ``+``, ``_`` and ``-`` only."""
    cleaned = (re.sub(r"[^A-Za-z0-9.+_]+", "-", str(word)).strip("-.") for word in words)
    return "-".join(word for word in cleaned if word)[:150]


@dataclass(frozen=True)
class TriedRemedy:
    """What came of a remedy, or of two at once.

    Args:
        name: its name.
        title: what it does.
        end: ``ok``; how one of its trials ended; or ``changed``: its outputs differ.
        ratio: its time as a part of the plain time; None: one of both did not finish.
        low, high: the ratio's 90 % interval; None: of a single pair.
        finished, trials: under the limit, before the winner was measured anew.
        seconds: the median of a round; None: no trial finished.
        stopped_s: how long a program ran that was stopped; None: none was, or one finished.
        changes: what it may change in results.
    """

    name: str
    title: str
    end: str
    ratio: float | None
    low: float | None
    high: float | None
    finished: int
    trials: int
    seconds: float | None
    stopped_s: float | None = None
    changes: str = ""


@dataclass(frozen=True)
class KeptWinner:
    """The winner, measured anew: what to type, a line each, and whether it is advised."""

    name: str
    typed: tuple[str, ...]
    finished: int
    trials: int
    ratio: float | None
    confirmed: bool


@dataclass(frozen=True)
class KeptAdvice:
    """The answer: ``name`` is the workload's, ``plain_…`` is it as it is, at the limit.

    The fastest remedy comes first. ``pressed``: whether the limit costs anything.
    """

    name: str
    limit_bytes: int
    plain_end: str
    plain_s: float | None
    slowdown: float | None
    pressed: bool
    trials: int
    total_s: float
    tried: tuple[TriedRemedy, ...]
    best: KeptWinner | None = None

    @property
    def typed(self) -> tuple[str, ...]:
        """What to type; empty where nothing is advised."""
        return self.best.typed if self.best and self.best.confirmed else ()


def keep_advice(folder: Path, answer: Mapping[str, Any]) -> None:
    """Keep the answer, as ``advise --json`` prints it, in the sweep's folder.

    Raises:
        ResultsError: it can't be written.
    """
    remedy = "free some space or make the folder writable"
    write_file(folder / ADVICE, json_bytes(dict(answer)), remedy)


def kept_advice(folder: Path) -> KeptAdvice | None:
    """None: the sweep is no finished search for remedies, or its answer can't be read."""
    try:
        return msgspec.convert(read_json(folder / ADVICE), KeptAdvice)
    except (ResultsError, msgspec.ValidationError):
        return None
