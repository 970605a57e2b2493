"""Lines of ``trials.jsonl`` as records: which are whole, damaged or incomplete, which are used."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from edgebench.records import FINAL_OUTCOMES, PhaseSum, TrialRecord
from edgebench.results.layout import (
    MOST_LINE_BYTES,
    TRIALS,
    check_schema,
    parse_line,
    whole_lines,
)
from edgebench.results.record_types import find_fault, sound_notes
from edgebench.results.stages import START, STEADY, round_stages

TORN = f"{TRIALS}: the last line is torn; its trial is not counted"
#: What a point's times are of. ``start`` is the first round's time on the clock, ``steady`` that of
#: the steady rounds (none where only one was run). ``total`` is the one answer where there may be
#: only one: ``steady``, else ``start``, else (a workload without rounds) the whole trial's time.
#: Phases are of the same rounds as ``total``; ``execute`` is one warm execution, ``decode`` one
#: generated token.
TIMES = (
    *("total", "start", "steady", "load", "first", "execute", "prefill", "decode"),
    *("data", "forward", "backward", "step", "graph"),
)
#: The import of the runtime in a fresh process, before any round: no part of the times above.
IMPORT = "import"
#: What is timed of each trial.
TRIAL_TIMES = (*TIMES, IMPORT)


def read_record(line: dict[str, Any], path: Path) -> TrialRecord | str:
    """The record in a line of ``trials.jsonl``, or what is wrong with it.

    Raises:
        ResultsError: a newer version wrote it.
    """
    if isinstance(line.get("schema"), int):
        check_schema(line["schema"], path)
    if fault := find_fault(line):
        return fault
    record = TrialRecord.from_json(line)
    return replace(record, notes=sound_notes(record.notes)) if record.notes else record


def whole_records(file: BinaryIO, path: Path, warnings: list[str]) -> list[TrialRecord]:
    """The records of a file. What isn't whole at the end is torn, not damaged.

    Args:
        file: read from here on.
        path: the file's, for messages.
        warnings: gets a sentence for each damaged line.

    Raises:
        ResultsError: a newer version wrote one of them.
    """
    records: list[TrialRecord] = []
    #: Lines that are no JSON, with none behind them yet: torn if they are the last ones.
    torn: list[int] = []
    number = end = 0
    for lines in whole_lines(file):
        end += len(lines)
        for line in lines.split(b"\n")[:-1]:
            number += 1
            data = parse_line(line) if line else None
            if data is None:
                torn += [number] if line else []
                continue
            warnings += [_damage(one, "it is no JSON object") for one in torn]
            torn = []
            record = read_record(data, path)
            if isinstance(record, str):
                warnings.append(_damage(number, record))
            else:
                records.append(record)
    rest = file.tell() - end
    if rest > MOST_LINE_BYTES:
        warnings.append(f"{TRIALS} is damaged from byte {end} on")
    elif torn or rest:
        warnings.append(TORN)
    return records


def _damage(number: int, what: str) -> str:
    return f"{TRIALS} line {number} is damaged and is left out: {what}"


def final_records(records: Iterable[TrialRecord], warnings: list[str]) -> list[TrialRecord]:
    """The records that count, one a trial: its final one, else its latest.

    Args:
        records: in the order in which they were made.
        warnings: gets a sentence for each trial that has more than one record.
    """
    latest: dict[str, TrialRecord] = {}
    for record in records:
        trial, known = record.trial, latest.get(record.trial)
        if known is not None and known.outcome in FINAL_OUTCOMES:
            warnings.append(f"trial {trial} is recorded twice; the first counts")
            continue
        if known is not None:
            warnings.append(f"trial {trial} was made again: it ended as {known.outcome}")
        latest[trial] = record
    return list(latest.values())


def trial_times(record: TrialRecord) -> dict[str, float]:
    """One trial's seconds, by :data:`TRIAL_TIMES`; empty unless it ended ``ok``.

    A phase is summed over the networks of a round; then comes the median of the rounds that
    ``total`` is of.
    """
    if record.outcome != "ok":
        return {}
    stages = round_stages(record)
    wanted = STEADY if STEADY in stages.values() else START
    rounds: dict[str, dict[int, float]] = {}
    for phase in record.phases:
        if stages.get(phase.round, wanted) == wanted:
            by_round = rounds.setdefault(phase.phase, {})
            seconds = phase.wall_s / phase.passes
            by_round[phase.round] = by_round.get(phase.round, 0.0) + seconds
    known = {name: statistics.median(by_round.values()) for name, by_round in rounds.items()}
    known |= {stages[p.round]: p.wall_s for p in record.phases if _is_start(p, stages)}
    if "round" in known:
        known |= {wanted: known["round"]}
    total = known.get("round", record.wall_s)
    known |= {} if total is None else {"total": total}
    return {name: known[name] for name in TRIAL_TIMES if name in known}


def _is_start(phase: PhaseSum, stages: Mapping[int, str]) -> bool:
    return phase.phase == "round" and stages[phase.round] == START
