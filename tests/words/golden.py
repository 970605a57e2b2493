"""The table of sentences: each with the case it is of, as ``tests/words/sentences.txt`` has them.

python -m tests.words.golden        writes the file anew: read what changed, aloud
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

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

from edgebench.kills import IMPORTING  # noqa: E402
from edgebench.results.facts import WorkloadFacts  # noqa: E402
from edgebench.results.kill_rate import KillRate  # noqa: E402
from edgebench.results.point_energy import ROUND, PointEnergy  # noqa: E402
from edgebench.results.point_facts import PointFacts  # noqa: E402
from edgebench.results.spread import Ratio, Spread  # noqa: E402
from edgebench.words.doubts import collection_note  # noqa: E402
from edgebench.words.fits import holder_sentences, viability_sentences  # noqa: E402
from edgebench.words.in_short import sweep_sentences, workload_sentence  # noqa: E402
from edgebench.words.kills import hour_words, rate_words  # noqa: E402
from edgebench.words.more_memory import more_memory_sentences  # noqa: E402
from edgebench.words.slowdown import energy_sentences, slowdown_sentences  # noqa: E402

FILE = Path(__file__).with_name("sentences.txt")
_SWAPLESS = {"swap": "none"}


def counted(label: str, per_s: float, outcomes: dict[str, int] | None = None) -> PointFacts:
    """A point of a program that says how many tokens a second it made."""
    one = point(label, (200.0 / per_s,) * 3, outcomes=outcomes)
    rate = Spread(per_s, per_s * 0.99, per_s * 1.01, 3)
    ratio = Ratio(20.0 / per_s, 19.5 / per_s, 20.5 / per_s, 0.02)
    ratios = {} if label == "max" else {"throughput": ratio}
    return replace(one, throughput_per_s=rate, unit="tokens", ratios=ratios)


def powered(one: PointFacts, energy_j: float) -> PointFacts:
    """The point with the energy of its rounds."""
    spread = Spread(energy_j, energy_j * 0.99, energy_j * 1.01, 3)
    return replace(one, energy=PointEnergy(spread, 0.01, "module", ROUND))


def imported(one: PointFacts, seconds: float) -> PointFacts:
    """The point with the time of its import."""
    own = Spread(seconds, seconds * 0.98, seconds * 1.02, 3)
    return replace(one, times_s={**one.times_s, "import": own})


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
    lost = replace(point("90M", outcomes=KILLED), ended_in="loading fc")
    free = imported(rounds("max", 1.0, 0.5), 2.0)
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
        "killed while importing": made(STEADY, replace(lost, ended_in=IMPORTING)),
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
        "energy": made(powered(STEADY, 4.0), powered(SLOWER, 9.0)),
        "mapped files": made(
            replace(STEADY, demand_bytes=375.0 * MIB, undroppable_bytes=55.0 * MIB), SLOW
        ),
        "no limit tried": made(FREE),
        "no unlimited trial": made(point("100M", outcomes=KILLED)),
    }


def lines() -> Iterator[str]:
    """The file's lines."""
    answers: dict[str, Callable[[WorkloadFacts], Iterable[str]]] = {
        "in short": lambda one: [workload_sentence(one, "alexnet")],
        "fits?": viability_sentences,
        "how slow?": lambda one: [*slowdown_sentences(one), *energy_sentences(one)],
        "more memory?": more_memory_sentences,
    }
    for case, workload in workloads().items():
        yield f"# {case}"
        for question, answer in answers.items():
            yield from (f"{question:<14}{words}" for words in answer(workload))
        yield ""
    yield "# what keeps it from fitting"
    base = {"settings": {**NETWORK, "loader": "copy"}}
    lost: dict[str, Any] = {"ended_in": "loading fc", **base}
    kept = made(
        replace(FREE, base_bytes=60.0 * MIB, **base),
        replace(point("90M", outcomes=KILLED), **lost),
    )
    yield from holder_sentences(kept, TABLE)
    yield from ("", "# how often a limit kills")
    for rate in (KillRate(0, 4, 2, 0.25), KillRate(1, 100, 1, 36.0), KillRate(3, 3, 1, None)):
        yield f"{rate_words(rate)}; {hour_words(rate)}"
    yield from ("", "# garbage collections", collection_note([0.1, 0.3]), "")
    yield "# many workloads"
    many = [replace(one, name=f"network {n}") for n, one in enumerate(workloads().values())]
    yield from sweep_sentences(many, {one.name: one.name for one in many})


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
