"""Everything that is held against the model: all splits, viability, each link of the chain."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgebench.errors import ResultsError, UsageError
from edgebench.slowdown.data import Curve, curves
from edgebench.slowdown.exam import examine
from edgebench.slowdown.knowledge import knowledge
from edgebench.slowdown.ladder import LEAST_LIMITS, TOO_FEW_REMEDY
from edgebench.slowdown.links import Link, LinkScore, links, score_links
from edgebench.slowdown.scores import Answer, Score, scores
from edgebench.slowdown.splits import family
from edgebench.slowdown.viability import stands
from edgebench.slowdown.viability_scores import Edge, Judged, ViabilityScore, judge_groups, score
from edgebench.suggest import did_you_mean

if TYPE_CHECKING:
    from edgebench.results.results import Results


@dataclass(frozen=True)
class Proof:
    """What was asked and answered, and how good the answers are.

    ``held_out`` are the families that were kept out of all fitting; ``lacking`` says in words
    what could not be asked.
    """

    held_out: tuple[str, ...]
    answers: list[Answer]
    scores: list[Score]
    judged: dict[str, list[Judged]]
    edges: dict[str, list[Edge]]
    viability: list[ViabilityScore]
    links: list[Link]
    link_scores: list[LinkScore]
    lacking: list[str]


def prove(
    results: Results,
    held_out: Collection[str] = (),
    under_way: Callable[[str], None] = lambda text: None,
) -> Proof:
    """Ask everything, of every device and kind of swap apart; ``under_way`` is told what comes.

    Raises:
        ResultsError: nothing to ask: only unlimited trials, all killed, or too few limits.
        UsageError: a family to hold out that isn't there.
    """
    made = curves(results)
    where = str(results.sweeps[0].path)
    _check_families(held_out, made)
    if not any(len(curve.limits) >= LEAST_LIMITS for curve in made):
        raise ResultsError(
            "too few limits: to leave one out, two must be left at which a trial finished",
            where=where,
            remedy=TOO_FEW_REMEDY,
        )
    known, lacking = knowledge(results)
    answers = [a for one in known for a in examine(one, held_out, under_way=under_way)]
    under_way("holding each link of the chain against what the kernel counted")
    found = [link for one in known for link in links(results, one.context)]
    judged, edges = judge_groups(stands(results), held_out)
    return Proof(
        held_out=tuple(sorted(held_out)),
        answers=answers,
        scores=scores(answers),
        judged=judged,
        edges=edges,
        viability=[score(split, judged[split], edges[split]) for split in judged],
        links=found,
        link_scores=score_links(found),
        lacking=lacking,
    )


def _check_families(held_out: Collection[str], made: Sequence[Curve]) -> None:
    known = {part for curve in made for part in family(curve).split("+")}
    for name in held_out:
        if name not in known:
            guess = did_you_mean(name, known)
            hint = f"did you mean {guess}?" if guess else f"one of {', '.join(sorted(known))}"
            raise UsageError(f"no family {name!r} among these results", remedy=hint)
    if known <= set(held_out):
        raise UsageError(
            "all families are held out: nothing is left to fit to",
            remedy="leave one out of --hold-out",
        )
