"""Lines of ``trials.jsonl`` as records: which are whole, damaged or incomplete, which are used."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgebench.kills import with_current_outcome
from edgebench.records import FINAL_OUTCOMES, PhaseSum, TrialRecord
from edgebench.results.layout import TRIALS, check_schema, parse_line
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
    """The record in a line of ``trials.jsonl``, judged as today; or what is wrong with it.

    Raises:
        ResultsError: a newer version wrote it.
    """
    if isinstance(line.get("schema"), int):
        check_schema(line["schema"], path)
    if fault := find_fault(line):
        return fault
    record = with_current_outcome(TrialRecord.from_json(line))
    return replace(record, notes=sound_notes(record.notes)) if record.notes else record


class LineReader:
    """Reads lines one after the other and notes which of them are damaged.

    Args:
        path: the file, for messages.
        number: how many lines were read before.
        damage: gets a warning for each damaged line.
    """

    def __init__(self, path: Path, number: int, damage: list[str]) -> None:
        self.number = number
        #: The numbers of lines that are no JSON and behind which none has been found yet: torn if
        #: they are the last ones, else damaged.
        self.torn: list[int] = []
        self._path = path
        self._damage = damage

    def read(self, line: bytes) -> TrialRecord | None:
        """The record in a line without its end; None if the line is empty, damaged or torn.

        Raises:
            ResultsError: a newer version wrote it.
        """
        data = parse_line(line) if line else None
        if data is None:
            self.number += 1
            self.torn += [self.number] if line else []
            return None
        record = read_record(data, self._path)
        self.skip(1)
        if isinstance(record, str):
            self._add_damage(self.number, record)
            return None
        return record

    def skip(self, lines: int) -> None:
        """Count lines that are whole."""
        for number in self.torn:
            self._add_damage(number, "it is no JSON object")
        self.torn = []
        self.number += lines

    def _add_damage(self, number: int, what: str) -> None:
        self._damage.append(f"{TRIALS} line {number} is damaged and is left out: {what}")


def whole_records(data: bytes, path: Path, warnings: list[str]) -> list[TrialRecord]:
    """The records of a file. What isn't whole at the end is torn, not damaged.

    Raises:
        ResultsError: a newer version wrote one of them.
    """
    reader = LineReader(path, 0, warnings)
    *lines, rest = data.split(b"\n")
    records = [record for line in lines if (record := reader.read(line))]
    if reader.torn or rest:
        warnings.append(TORN)
    return records


def final_rows(trials: Iterable[tuple[str, str]], warnings: list[str]) -> list[int]:
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
