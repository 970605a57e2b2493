"""Lines of ``trials.jsonl`` as records: which are whole, which damaged or torn, which count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from edgebench.records.records import FINAL_OUTCOMES, TrialRecord
from edgebench.records.shapes import is_whole
from edgebench.results.layout import TRIALS, check_schema, parse_line

TORN = f"{TRIALS}: the last line is torn; its trial is not counted"


def damaged(numbers: Iterable[int]) -> list[str]:
    """What is said of damaged lines, by their numbers from 1."""
    return [f"{TRIALS} line {number} is damaged and is left out" for number in numbers]


def whole_record(line: dict[str, Any] | None, path: Path) -> TrialRecord | None:
    """The record in a line of ``trials.jsonl``; None if it is damaged.

    Raises:
        ResultsError: a newer version wrote it.
    """
    if line is None:
        return None
    if isinstance(line.get("schema"), int):
        check_schema(line["schema"], path)
    try:
        record = TrialRecord.from_json(line)
    except (KeyError, TypeError, AttributeError):
        return None
    return record if is_whole(record) else None


def whole_records(lines: Iterable[bytes], path: Path, warnings: list[str]) -> Iterator[TrialRecord]:
    """Line by line: there may be very many. What isn't whole at the end is torn, not damaged.

    Raises:
        ResultsError: a newer version wrote one of them.
    """
    torn: list[int] = []
    for number, line in enumerate(lines, start=1):
        data = parse_line(line) if line.endswith(b"\n") else None
        if data is None:
            torn += [number] if line != b"\n" else []
            continue
        record = whole_record(data, path)
        warnings += damaged(torn if record else [*torn, number])
        torn = []
        if record:
            yield record
    if torn:
        warnings.append(TORN)


def counted(trials: Iterable[tuple[str, str]], warnings: list[str]) -> list[int]:
    """Which of the lines count, one a trial: its final one, else its latest.

    Args:
        trials: each line's trial and outcome.
        warnings: gets a sentence for each trial that has more than one line.
    """
    latest: dict[str, tuple[int, str]] = {}
    for index, (trial, outcome) in enumerate(trials):
        known = latest.get(trial)
        if known is not None and known[1] in FINAL_OUTCOMES:
            warnings.append(f"trial {trial} is recorded twice; the first counts")
            continue
        if known is not None:
            warnings.append(f"trial {trial} was made again: it ended as {known[1]}")
        latest[trial] = index, outcome
    return [index for index, _ in latest.values()]
