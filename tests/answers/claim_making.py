"""Made-up sweeps with the raw times beside them, for tests of what answers may claim."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from scipy import stats

from edgebench.records import LimitSetting, Outcome, PhaseSum, TrialRecord
from edgebench.results.sweep_reader import Sweep

MIB = 1 << 20
#: Sameness is never claimed where the interval holds this.
CLEARLY = 1.5
#: Many examples would find more; these take a second and are always the same.
quick = settings(max_examples=40, deadline=None, derandomize=True, database=None)
OUTCOMES: tuple[Outcome, ...] = ("ok", "oom-killed", "timeout", "failed", "interrupted")
#: Seconds of the repeats of one point: calm, noisy, far apart, a single one, none.
REPEATS = st.tuples(
    st.floats(0.5, 4.0),
    st.sampled_from([0.0, 0.004, 0.02, 0.1, 0.6]),
    st.lists(st.floats(-1, 1), max_size=12),
).map(lambda drawn: [drawn[0] * math.exp(drawn[1] * off) for off in drawn[2]])
LOST = st.lists(st.sampled_from(OUTCOMES[1:]), max_size=2)


@dataclass(frozen=True)
class Point:
    """One limit (None: unlimited): what its trials that finished took, how the others ended."""

    limit: int | None
    seconds: Sequence[float]
    lost: Sequence[Outcome]
    demand: int | None = None

    @property
    def finished(self) -> bool:
        return bool(self.seconds) and not self.lost


POINTS = st.builds(
    lambda free, limits, demand: [
        Point(None, free[0], free[1], demand),
        *(Point(size, *about) for size, about in sorted(limits.items(), reverse=True)),
    ],
    st.tuples(REPEATS, st.just([]) | LOST),
    st.dictionaries(
        st.integers(20, 400), st.tuples(REPEATS, st.just([]) | LOST), min_size=1, max_size=5
    ),
    st.none() | st.integers(50, 300).map(lambda size: size * MIB),
)


def sweep_of(points: Sequence[Point], swap: str = "file", rounds: int = 1) -> Sweep:
    records = [record(p, o, s, swap, rounds) for p in points for o, s in trials_of(p)]
    return Sweep(Path("nowhere"), "board", records, {}, {}, {}, "", None, False)


def trials_of(point: Point) -> list[tuple[Outcome, float]]:
    return [*(("ok", s) for s in point.seconds), *((how, 9.0) for how in point.lost)]


def record(point: Point, ended: Outcome, seconds: float, swap: str, rounds: int) -> TrialRecord:
    size = None if point.limit is None else point.limit * MIB
    phases = [PhaseSum(-1, None, "import", seconds)]
    for number in range(rounds):
        phases += [PhaseSum(number, None, "round", seconds)]
        phases += [PhaseSum(number, "n", "load", seconds / 2)]
    return TrialRecord(
        trial="0",
        point=f"p{point.limit}",
        block=0,
        repeat=0,
        settings={"kind": "inference", "networks": ["n"]},
        limits=LimitSetting("max" if size is None else f"{point.limit}M", size, swap),
        outcome=ended,
        started_utc="",
        wall_s=seconds,
        limit_bytes=size,
        saturated=point.demand is None,
        demand_bytes=point.demand if ended == "ok" else None,
        phases=phases if ended == "ok" else [],
    )


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    if len(values) < 2:
        return None
    ordered, count = sorted(values), len(values)
    few = 2 * stats.binom.cdf(range(count // 2), count, 0.5) <= 0.05
    out = max(few.sum() - 1, 0)
    return ordered[out], ordered[-1 - out]
