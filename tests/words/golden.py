"""The table of sentences: each with the case it is of, as ``tests/words/sentences.txt`` has them.

python -m tests.words.golden        writes the file anew: read what changed, aloud
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "report")]

from sentence_making import (  # noqa: E402
    FREE,
    KILLED,
    MIB,
    NETWORK,
    STEADY,
    made,
    point,
    rounds,
    walked,
)

from edgebench.knee import NoKnee, find_knee  # noqa: E402
from edgebench.records import Doubt, EndedIn  # noqa: E402
from edgebench.results.facts import WorkloadFacts  # noqa: E402
from edgebench.results.miss_curve import MissCurve, MissPoint  # noqa: E402
from edgebench.results.point_facts import PointFacts  # noqa: E402
from edgebench.results.spread import Ratio, Spread  # noqa: E402
from edgebench.words.doubts import (  # noqa: E402
    collection_note,
    doubt_sentence,
    doubt_sentences,
)
from edgebench.words.fits import holder_sentences, viability_sentences  # noqa: E402
from edgebench.words.in_short import sweep_sentences, workload_sentence  # noqa: E402
from edgebench.words.miss_curve import miss_curve_sentence  # noqa: E402
from edgebench.words.more_memory import more_memory_sentences  # noqa: E402
from edgebench.words.slowdown import slowdown_sentences  # noqa: E402
from tests.words.trial_sentences import (  # noqa: E402
    minimum_lines,
    run_lines,
    search_lines,
    study_lines,
    trial_lines,
)

FILE = Path(__file__).with_name("sentences.txt")
_SWAPLESS = {"swap": "none"}
LOADING = EndedIn("load", "duo", "fc")


def counted(label: str, per_s: float, outcomes: dict[str, int] | None = None) -> PointFacts:
    """A point of a program that says how many tokens a second it made."""
    one = point(label, (200.0 / per_s,) * 3, outcomes=outcomes)
    rate = Spread(per_s, per_s * 0.99, per_s * 1.01, 3)
    ratio = Ratio(20.0 / per_s, 19.5 / per_s, 20.5 / per_s, 0.02)
    ratios = {} if label == "max" else {"throughput": ratio}
    return replace(one, throughput_per_s=rate, unit="tokens", ratios=ratios)


def imported(one: PointFacts, seconds: float) -> PointFacts:
    """The point with the time of its import."""
    own = Spread(seconds, seconds * 0.98, seconds * 1.02, 3)
    return replace(one, times_s={**one.times_s, "import": own})


def tighter(one: PointFacts) -> PointFacts:
    """The same at 80 MiB."""
    limits = structs.replace(one.limits, label="80M", memory_bytes=80 * MIB)
    return replace(one, point="p-80M", limits=limits, limit_bytes=80 * MIB)


SLOW, SLOWER = point("150M", (3.0, 3.1, 3.2)), point("100M", (7.9, 8.0, 8.1), loads=3.5)
SOME = {"ok": 2, "oom-killed": 1}
TABLE = {
    "networks": {
        "alexnet": {
            "table": [
                {"name": "conv", "part": "conv", "parameter_bytes": 4 * MIB, "live_peak_bytes": 3},
                {"name": "fc", "part": "fc", "parameter_bytes": 40 * MIB, "live_peak_bytes": 1},
            ]
        }
    }
}


def workloads() -> dict[str, WorkloadFacts]:
    """Case → a workload."""
    lost = replace(point("90M", outcomes=KILLED), ended_in=LOADING)
    importing = replace(lost, ended_in=EndedIn("import"))
    free = imported(rounds("max", 1.0, 0.5), 2.0)
    slow_before: dict[str, Any] = {"rounds_before_end_s": Spread(1.75, 1.7, 1.8, 3)}
    return {
        "slowed at both limits": made(STEADY, SLOW, SLOWER),
        "as fast at one limit, slower at the next": made(STEADY, point("150M", (2.1,) * 3), SLOWER),
        "as fast at every limit": made(
            STEADY, point("150M", (2.0,) * 3), point("90M", (2.02,) * 3)
        ),
        "faster below a limit": made(FREE, point("100M", (1.0, 1.1, 1.2))),
        "repeats that differ much": made(
            point("max", (1.5, 2.0, 2.9)), point("150M", (2.0, 2.3, 2.6)), point("90M", (9.0,) * 3)
        ),
        "one trial each": made(point("max", (2.0,)), point("150M", (2.4,)), point("90M", (9.0,))),
        "killed at the tightest limit": made(STEADY, SLOW, lost),
        "killed without swap": made(
            point("max", (2.0,) * 3, **_SWAPLESS), point("90M", outcomes=KILLED, **_SWAPLESS)
        ),
        "some trials killed": made(STEADY, SLOW, point("100M", (8.0,) * 2, outcomes=SOME)),
        "killed at a wide limit, finished at a tighter one": made(
            STEADY, point("150M", (3.0,) * 2, outcomes=SOME), SLOWER
        ),
        "killed while importing": made(STEADY, replace(lost, ended_in=EndedIn("import"))),
        "out of time": made(STEADY, point("100M", outcomes={"timeout": 3})),
        "killed with swap free": made(
            STEADY,
            replace(
                point("100M", (4.0,), outcomes={"ok": 1, "oom-killed": 2}),
                swap_free_bytes=Spread(1536.0 * MIB, 1434.0 * MIB, 1638.0 * MIB, 2),
            ),
        ),
        "a start and steady rounds": made(free, imported(rounds("100M", 1.25, 0.5), 8.0)),
        "one round": made(rounds("max", 1.0, None), rounds("100M", 3.0, None)),
        "a walk": made(
            walked("max", 2.0, (1.0, 1.0, 1.0)),
            walked("150M", 1.9, (1.17, 1.18, 1.19)),
            walked("100M", 1.8, (2.3, 2.36, 2.4)),
        ),
        "a working set": made(
            replace(STEADY, working_set_bytes=Spread(80.0 * MIB, 78.0 * MIB, 81.0 * MIB, 3)), SLOW
        ),
        "a throughput": made(counted("max", 20.0), counted("150M", 19.8), counted("100M", 5.0)),
        "mapped files": made(
            replace(STEADY, demand_bytes=375.0 * MIB, undroppable_bytes=55.0 * MIB), SLOW
        ),
        "lost at several limits, in several ways": made(
            FREE,
            point("150M", (2.0,)),
            point("100M", (4.0, 4.0), outcomes=SOME),
            point("80M", outcomes=KILLED),
            point("60M", outcomes={"timeout": 1, "oom-killed": 2}),
        ),
        "killed between two limits at which it finished": made(
            FREE,
            point("150M", (2.0,) * 3),
            point("100M", outcomes=KILLED),
            point("80M", (2.0,) * 3),
        ),
        "finished by luck below a limit that killed": made(
            FREE,
            point("150M", (2.0,) * 3),
            point("100M", (4.0,), outcomes={"ok": 1, "oom-killed": 2}),
            point("90M", (4.0,) * 3),
        ),
        "one trial, then killed": made(FREE, point("150M", (2.0,)), point("90M", outcomes=KILLED)),
        "importing at two limits": made(FREE, importing, tighter(importing)),
        "importing in some trials": made(FREE, replace(importing, ended_in=None)),
        "killed after slow rounds": made(rounds("max", 1.0, 0.5), replace(lost, **slow_before)),
        "after slow rounds, and at a tighter limit": made(
            rounds("max", 1.0, 0.5),
            replace(lost, **slow_before, ended_in=EndedIn("execute", "duo", "fc")),
            tighter(lost),
        ),
        "repeats that overlap at the tightest limit": made(FREE, point("100M", (2.05, 2.2, 2.3))),
        "steps up that save more and less": made(
            FREE, point("150M", (3.0,) * 3), point("140M", (8.0,) * 3), point("100M", (10.0,) * 3)
        ),
        "only the start is slower": made(rounds("max", 1.0, 0.5), rounds("100M", 1.2, 0.5)),
        "a little slower, then much": made(
            STEADY, point("150M", (2.08,) * 3), point("50M", (4.0,) * 3)
        ),
        "alike, with repeats that differ": made(
            point("max", (1.5, 2.0, 2.9)), point("150M", (1.6, 2.0, 2.6))
        ),
        "perhaps slower, with repeats that differ": made(
            point("max", (1.5, 2.0, 2.9)), point("150M", (1.6, 2.6, 2.6))
        ),
        "one trial that is not slower": made(FREE, point("150M", (2.1,))),
        "one unlimited trial": made(
            point("max", (2.0,)), point("150M", (2.1,)), point("100M", (2.0, 2.1))
        ),
        "one trial at the wider limit": made(FREE, point("150M", (4.0,)), SLOWER),
        "slower than one unlimited trial": made(point("max", (2.0,)), SLOWER),
        "finished at a limit, none without": made(point("90M", (2.0, 2.1))),
        "no limit tried": made(FREE),
        "no unlimited trial": made(point("100M", outcomes=KILLED)),
    }


def lines() -> Iterator[str]:
    """The file's lines."""
    answers: dict[str, Callable[[WorkloadFacts], Iterable[str]]] = {
        "in short": lambda one: [workload_sentence(one, "alexnet")],
        "fits?": viability_sentences,
        "how slow?": slowdown_sentences,
        "more memory?": more_memory_sentences,
    }
    for case, workload in workloads().items():
        yield f"# {case}"
        for question, answer in answers.items():
            yield from (f"{question:<14}{words}" for words in answer(workload))
        yield ""
    yield "# what keeps it from fitting"
    base = {"settings": {**NETWORK, "loader": "copy"}}
    lost: dict[str, Any] = {"ended_in": LOADING, **base}
    kept = made(
        replace(FREE, base_bytes=60.0 * MIB, **base),
        replace(point("90M", outcomes=KILLED), **lost),
    )
    yield from holder_sentences(kept, TABLE)
    yield from ("", "# garbage collections", collection_note([0.1, 0.3]), "")
    yield from ("# doubts", *(doubt_sentence(doubt) for doubt in doubts()), "")
    yield from ("# doubts of several points", *doubt_sentences(placed()), "")
    yield "# what rounds read again"
    yield from map(miss_curve_sentence, miss_curves())
    yield ""
    yield from (*run_lines(), *trial_lines(), *minimum_lines(), *search_lines(), *study_lines())
    yield "# many workloads"
    many = [replace(one, name=f"network {n}") for n, one in enumerate(workloads().values())]
    yield from sweep_sentences(many, {one.name: one.name for one in many})


def miss_curves() -> Iterator[MissCurve]:
    """One with a knee, and one for each reason that there is none."""
    reads: dict[NoKnee | None, dict[int, int]] = {
        None: {300: 0, 240: 50, 236: 150, 150: 200, 100: 200},
        "never_read": {300: 0, 100: 0},
        "rising": {300: 0, 200: 50, 100: 200},
        "wider": {200: 200, 100: 200},
        "killed": {300: 0, 250: 30},
        "disagree": {300: 0, 282: 120, 240: 0, 150: 200, 100: 200},
    }
    for missing, read in reads.items():
        added = {limit * MIB: [size * MIB] for limit, size in read.items()}
        knee = find_knee(added, 200 * MIB if missing == "killed" else None)
        assert knee.missing == missing
        yield MissCurve(
            FREE.key,
            tuple(MissPoint(limit, "down", *size) for limit, size in added.items()),
            *(knee.plateau_bytes, knee.knee_bytes, knee.between, "down"),
            missing=missing,
        )


def doubts() -> Iterator[Doubt]:
    """One of each kind."""
    cpu = {"share": 0.06, "cpu_s": 1.34, "events": 7}
    spread = {"share": 0.153, "repeats": 3, "wanted": 80, "more": 9}
    far = {"repeat_s": 8.0, "away_share": 1.91, "mean_s": 2.75}
    cliff = {"low_bytes": 40 * MIB, "high_bytes": 60 * MIB}
    cliff |= {"known_share": 0.28, "wanted_share": 0.05}
    yield from (Doubt(kind, cpu) for kind in ("stolen_cpu", "foreign_cpu", "throttled_cpu"))
    yield Doubt("slowed_down", {}, ["under-voltage"])
    yield Doubt("hot", {"hot_c": 86.2, "trip_c": 85.0})
    yield Doubt("clock_capped", {"low_ghz": 1.2, "high_ghz": 1.8})
    yield Doubt("limit_not_met", {"factor": 2.75})
    yield from (Doubt(kind, spread) for kind in ("spread", "spread_known", "spread_wide"))
    yield from (Doubt(kind, far) for kind in ("short_repeat", "long_repeat"))
    yield Doubt("unsteady_rounds")
    yield Doubt("limit_changed", {"from_bytes": 64 * MIB}, ["memory"])
    yield from (Doubt(k, {"count": 2}) for k in ("no_events", "events_dropped", "notes_left_out"))
    yield Doubt("ceiling", {"ceiling_bytes": 150 * MIB})
    yield Doubt("uncounted_swap_ram", {"taken_bytes": 72 * MIB}, ["zram"])
    yield Doubt("other_swap_area", {"swap_bytes": 40 * MIB}, ["/dev/sda3"])
    yield Doubt("walk_refused", {"limit_bytes": 8 * MIB}, ["the kernel can't reclaim as much"])
    yield Doubt("walk_events")
    yield from (Doubt(kind, cliff) for kind in ("knee_close", "knee_left", "knee_disagree"))
    yield from (Doubt(kind, cliff) for kind in ("cliff_noisy", "cliff_gradual", "cliff_left"))
    yield Doubt("huge_pages", {"huge_bytes": 12 * MIB})
    yield Doubt("killed_with_swap_free", {"free_bytes": 1900 * MIB})
    yield Doubt("drift", {"drift_share": -0.15})
    yield Doubt("no_reading", {}, ["heaptrack", "heaptrack is not installed"])


def placed() -> Iterator[Doubt]:
    """Doubts of one kind: at limits, of trials, with other numbers and causes."""
    for number in range(1, 6):
        share = {"share": number / 100, "cpu_s": number / 2}
        yield Doubt("foreign_cpu", share, workload=f"net{number}", limit=f"{10 * number}%")
    for limit in ("max", "60%", "40%", "30%", "20%"):
        yield Doubt("killed_with_swap_free", {"free_bytes": 70 * MIB}, [], None, "lenet", limit)
    yield from (Doubt("walk_events", trial=trial) for trial in ("0001", "0007"))
    for cause in ("under-voltage", "frequency capped", "under-voltage"):
        yield Doubt("slowed_down", {}, [cause])


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
