"""Sentences on one trial, on searches and on studies, for :mod:`tests.words.golden`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgebench.analysis.studies.effects import SettingEffect
from edgebench.records import GrowthReport, LimitSetting, OutsideReport, TrialRecord
from edgebench.run.minimum_answer import Minimum
from edgebench.run.search import LimitBracket, TriedLimit
from edgebench.run.sweep import SweepSummary
from edgebench.scenario.points import Point
from edgebench.scenario.preview import Preview
from edgebench.words.comparison import watched_differently_sentence
from edgebench.words.layers import no_cause_sentence
from edgebench.words.measure import measure_sentence
from edgebench.words.minimum import minimum_sentence
from edgebench.words.model import best_model_sentence
from edgebench.words.record import record_line
from edgebench.words.runs import (
    planned_words,
    preview_sentence,
    strategies_words,
    summary_lines,
    unexpected_words,
)
from edgebench.words.searches import (
    bracket_words,
    limit_end_words,
    limit_slowdown_words,
)
from edgebench.words.studies import (
    bends_sentence,
    cores_sentence,
    effects_sentence,
    learning_rate_words,
    operators_sentence,
    partial_training_sentence,
)

MIB = 1 << 20


def run_lines() -> Iterator[str]:
    """Before a sweep, and after it."""
    points = [Point(f"p{n}", {}, LimitSetting(label)) for n, label in enumerate(("max", "50%"))]
    seen = Preview("quickstart", "", points, trials=6, own_trials=2, longest_s=960.0)
    yield "# a run"
    yield preview_sentence(seen)
    yield planned_words(seen, 3)
    yield planned_words(replace(seen, walks=1), 3)
    yield strategies_words(seen, ("cgroup", "massif"))
    ends = {"ok": 5, "oom-killed": 1}
    summary = SweepSummary(Path("results"), 6, ends, 0, 73.0, 0.043, 0.012)
    yield from summary_lines(summary, verbose=True)
    yield unexpected_words({"timeout": 2})
    yield ""


def trial_lines() -> Iterator[str]:
    """Each case of one trial: what ``measure`` answers, and how the record shows itself."""
    yield "# one trial"
    for case, record in _records().items():
        yield f"{case:<24}{measure_sentence(record)}"
        yield f"{'':<24}{record_line(record)}"
    yield ""


def search_lines() -> Iterator[str]:
    """Limits and batches that a search found."""
    good, bad = TriedLimit(150.0 * MIB, "ok", 1.4, 3), TriedLimit(140.0 * MIB, "oom-killed", None)
    free = TriedLimit(140.0 * MIB, "oom-killed", None, 2, swap_free_bytes=900 * MIB)
    slow = TriedLimit(140.0 * MIB, "ok", 2.6)
    yield "# what a search found"
    for found in (LimitBracket(good, bad), LimitBracket(good, free), LimitBracket(good, None)):
        yield bracket_words(found, limit_end_words)
    yield bracket_words(LimitBracket(None, bad), limit_end_words)
    yield bracket_words(LimitBracket(good, slow), limit_slowdown_words)
    yield ""


def minimum_lines() -> Iterator[str]:
    """What ``minimum`` answers, in each way in which a search can end."""
    yield "# the least memory"
    yield from (f"{case:<34}train.py {minimum_sentence(one)}" for case, one in _minimums().items())
    yield ""


def _minimums() -> dict[str, Minimum]:
    good, bad = TriedLimit(150.0 * MIB, "ok", 1.4, 4), TriedLimit(146.0 * MIB, "oom-killed", None)
    wide, slow = TriedLimit(300.0 * MIB, "ok", 1.9, 3), TriedLimit(296.0 * MIB, "ok", 2.2, 2)
    low = TriedLimit(100.0 * MIB, "oom-killed", None)
    late = TriedLimit(146.0 * MIB, "timeout", None, stopped_s=25.0)
    lowest = replace(good, slowdown=6.0)
    slowly: dict[str, Any] = {"fast": LimitBracket(wide, slow), "slowdown": 2.0}
    no_limit = LimitBracket(None, None)
    return {
        "killed just below": _minimum(LimitBracket(good, bad), good, bad),
        "killed far below": _minimum(LimitBracket(good, low), good, low, finished=False),
        "slow, then killed": _minimum(LimitBracket(lowest, bad), wide, slow, lowest, bad, **slowly),
        "never killed": _minimum(LimitBracket(low, None), replace(low, outcome="ok")),
        "killed at every limit": _minimum(LimitBracket(None, bad), bad),
        "too slow": _minimum(LimitBracket(good, late), good, late),
        "not tried": _minimum(no_limit),
        "fits in a size": _minimum(LimitBracket(good, None), good, size_bytes=150 * MIB),
        "killed in a size": _minimum(LimitBracket(None, bad), bad, size_bytes=146 * MIB),
        "need that varies": _minimum(
            LimitBracket(good, bad), good, bad, demands_bytes=(200 * MIB, 300 * MIB, 210 * MIB)
        ),
    }


def _minimum(viable: LimitBracket, *tried: TriedLimit, **known: Any) -> Minimum:
    needs = known.get("demands_bytes", (400 * MIB,))
    about: dict[str, Any] = {"demand_bytes": max(needs), "demand_least_bytes": min(needs)}
    about |= {"unlimited_s": 2.0, "fast": None, "trials": 9, "total_s": 50.0, **known}
    about["given"] = about["fast"] or viable
    return Minimum("train.py", Path(), viable=viable, tried=tried, **about)


def study_lines() -> Iterator[str]:
    """Above the tables of studies, and of comparisons, models and layers."""
    yield "# studies, comparisons, models"
    yield operators_sentence("lenet, batch 32", {"convolution": 0.61, "batch norm": 0.2})
    for accuracies in ((0.91, 0.97), (float("nan"), float("nan"))):
        yield partial_training_sentence(
            "lenet on mnist", "last", step_share=0.4, memory_share=0.3, accuracies=accuracies
        )
    yield from (
        learning_rate_words(_effect(low, high)) for low, high in ((-3, -1), (1, 3), (-1, 2))
    )
    yield effects_sentence(["batch", "nodes"], ["learning_rate"])
    yield effects_sentence([], ["learning_rate"])
    yield cores_sentence({"forward": 1.83, "backward": 1.9}, 2)
    yield bends_sentence(4, 8)
    yield watched_differently_sentence("with memory.stat", "without memory.stat")
    yield best_model_sentence("interpolated", 0.09)
    yield no_cause_sentence(None)
    yield ""


def _effect(low: float, high: float) -> SettingEffect:
    across, ends = MIB * (low + high) / 2, (MIB * float(low), MIB * float(high))
    return SettingEffect(
        {}, "peak", "learning_rate", 9, 0.1, low, high, across, *ends, 0.1, 0.1, 0.0, 0.2
    )


def _records() -> dict[str, TrialRecord]:
    lost = {"outcome": "oom-killed", "reason": "killed by the kernel", "exit_code": None}
    grows = GrowthReport(True, float(MIB), 300 * MIB, None, 20.0)
    known = {"demand_bytes": 412 * MIB, "peak_bytes": 412 * MIB, "sampled_peak_bytes": 412 * MIB}
    small = dict.fromkeys(known, 4 * MIB)
    stopped: dict[str, Any] = {"exit_code": None, "outside": OutsideReport()}
    return {
        "finished": _trial(**known),
        "with mapped files": _trial(**known, undroppable_bytes=55 * MIB),
        "outlived by a process": _trial(**known, outside=OutsideReport(1, ["sleep"])),
        "idle": _trial(**small, wall_s=3.0, cpu_s=0.1, outside=OutsideReport()),
        "still growing": _trial(**known, **stopped, growth=grows),
        "stopped": _trial(**known, **stopped),
        "need unknown": _trial(),
        "below its limit": _trial(512, peak_bytes=412 * MIB),
        "at its limit": _trial(400, peak_bytes=400 * MIB, saturated=True, swap_peak_bytes=9 * MIB),
        "killed at its limit": _trial(300, **lost),
        "killed without a limit": _trial(**lost),
        "out of time": _trial(
            400, outcome="timeout", reason="ran past its time limit of 60 s", exit_code=None
        ),
        "failed": _trial(400, outcome="failed", reason="exit code 3", exit_code=3),
        "ended by a signal": _trial(
            400, outcome="failed", reason="ended by signal 11 (SIGSEGV)", signal=11, exit_code=None
        ),
        "accelerator full": _trial(400, outcome="accelerator-oom", reason="CUDA out of memory"),
        "interrupted": _trial(400, outcome="interrupted", reason="Ctrl-C"),
    }


def _trial(
    limit_mib: int | None = None,
    command: tuple[str, ...] = ("python3", "infer.py"),
    **known: Any,
) -> TrialRecord:
    size = limit_mib and limit_mib * MIB
    given = {"kind": "command", "command": [*command]}
    limits = LimitSetting("max" if size is None else f"{limit_mib}M", size, "none")
    made: dict[str, Any] = {
        "outcome": "ok",
        "exit_code": 0,
        "wall_s": 2.5,
        "limit_bytes": size,
        **known,
    }
    return TrialRecord("0001", "p", 1, 1, given, limits, started_utc="", **made)
