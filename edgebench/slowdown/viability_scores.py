"""How right predictions of viability are, of networks that they did not know."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgebench.slowdown.viability import CONFIDENT, Stand, Viability, learn


@dataclass(frozen=True)
class Edge:
    """Where a workload's trials stop to finish: seen, and predicted without its network.

    Seen is an interval: killed at ``killed_bytes``, finished at ``viable_bytes``.
    """

    network: str
    swap_bytes: float
    killed_bytes: float
    viable_bytes: float
    predicted_bytes: float

    @property
    def error(self) -> float:
        """|ln(predicted / seen)|; 0 within the interval."""
        nearest = min(max(self.predicted_bytes, self.killed_bytes), self.viable_bytes)
        return abs(math.log(max(self.predicted_bytes, 1.0) / nearest))


@dataclass(frozen=True)
class ViabilityScore:
    """How right predictions of viability are.

    Attributes:
        split: which trials the prediction did not know.
        trials, killed: how many were asked for, and how many of them did not finish.
        right: share that was predicted as it came.
        wrongly_viable, wrongly_killed: how many were predicted the one and came as the other.
        dangerous: how many were called viable with confidence (≥ 90 %) and were killed.
        edges: workloads whose edge shows: some trials killed, some not.
        within_10: share of those whose least viable limit is predicted within 10 %.
        median_error: median of |ln(predicted / seen)| over them.
    """

    split: str
    trials: int
    killed: int
    right: float
    wrongly_viable: int
    wrongly_killed: int
    dangerous: int
    edges: int
    within_10: float | None
    median_error: float | None


@dataclass(frozen=True)
class Judged:
    """A trial and the probability that it finishes, told without its network."""

    stand: Stand
    probability: float


def judge(known: Sequence[Stand], asked: Sequence[Stand]) -> tuple[list[Judged], list[Edge]]:
    """What is predicted of the asked trials by what the known ones teach."""
    learnt = learn(known)
    judged = [
        Judged(s, learnt.probability(s.limit_bytes, s.swap_bytes, s.need_bytes)) for s in asked
    ]
    groups: dict[tuple[Any, ...], list[Stand]] = {}
    for stand in asked:
        groups.setdefault(stand.workload, []).append(stand)
    edges = [edge for group in groups.values() if (edge := _edge(group, learnt))]
    return judged, edges


def _edge(group: Sequence[Stand], learnt: Viability) -> Edge | None:
    killed = [stand.limit_bytes for stand in group if not stand.viable]
    viable = [s.limit_bytes for s in group if s.viable and s.limit_bytes > max(killed, default=0)]
    if not killed or not viable:
        return None
    first = group[0]
    predicted = learnt.least_bytes(first.swap_bytes, first.need_bytes)
    return Edge(first.network, first.swap_bytes, max(killed), min(viable), predicted)


def score(split: str, judged: Sequence[Judged], edges: Sequence[Edge]) -> ViabilityScore:
    """Sum up."""
    wrong = [one for one in judged if (one.probability >= 0.5) != one.stand.viable]
    errors = np.array([edge.error for edge in edges])
    killed = [one for one in judged if not one.stand.viable]
    return ViabilityScore(
        split=split,
        trials=len(judged),
        killed=len(killed),
        right=1 - len(wrong) / len(judged),
        wrongly_viable=sum(not one.stand.viable for one in wrong),
        wrongly_killed=sum(one.stand.viable for one in wrong),
        dangerous=sum(one.probability >= CONFIDENT for one in killed),
        edges=len(edges),
        within_10=float(np.mean(errors <= math.log(1.1))) if edges else None,
        median_error=float(np.median(errors)) if edges else None,
    )


def judge_groups(
    all_stands: Sequence[Stand], held_out: Collection[str] = ()
) -> tuple[dict[str, list[Judged]], dict[str, list[Edge]]]:
    """By split: one network out, one family out, and the held-out families, where there are."""
    kept = [stand for stand in all_stands if stand.family not in held_out]
    apart = [stand for stand in all_stands if stand.family in held_out]
    splits = {
        "network": _one_out(kept, lambda stand: stand.network),
        "family": _one_out(kept, lambda stand: stand.family),
        "held-out": [(kept, apart)] if apart and kept else [],
    }
    judged: dict[str, list[Judged]] = {}
    edges: dict[str, list[Edge]] = {}
    for split, pairs in splits.items():
        for known, asked in pairs:
            told = judge(known, asked)
            judged.setdefault(split, []).extend(told[0])
            edges.setdefault(split, []).extend(told[1])
    return judged, edges


def _one_out(
    kept: Sequence[Stand], of: Callable[[Stand], str]
) -> list[tuple[list[Stand], list[Stand]]]:
    """For each name what may be known, and what is asked."""
    names = sorted({of(stand) for stand in kept})
    if len(names) < 2:
        return []
    return [
        ([one for one in kept if of(one) != name], [one for one in kept if of(one) == name])
        for name in names
    ]
