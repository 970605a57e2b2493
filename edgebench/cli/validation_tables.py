"""The sentence and tables of ``edgebench validate``."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from edgebench.cli.output import print_answer, print_lines, print_table, print_title

if TYPE_CHECKING:
    from edgebench.slowdown.evaluation.evaluation import Evaluation
    from edgebench.slowdown.evaluation.scores import Score
    from edgebench.slowdown.evaluation.use_scores import UseScore

#: Fewer bytes than this show nothing of a simulation.
_MUCH = 20 << 20
#: Split → what was held out, in the order that is shown.
_TITLES = {
    "limit-inside": "one limit held out, with limits on both sides of it known",
    "limit-outside": "the tightest or the widest limit held out",
    "network": "one network held out, with its unlimited trials known",
    "network-unrun": "one network held out, with no trial of it known",
    "family": "one family of networks held out",
    "schedule": "one schedule held out",
    "held-out": "families never used for fitting: {}",
    "held-out-unrun": "families never used for fitting, with no trial of them known: {}",
}
#: Use → what is known of the workload, as the sentence and as the table have it.
_KNOWN = {
    "known": ("at a limit that was left out", "known network, a limit left out"),
    "unlimited": ("if only its unlimited times are known", "network left out, unlimited known"),
    "unrun": ("if it was never run", "network never run"),
    "held-out": ("in the held-out families", "held-out families, unlimited known"),
    "held-out-unrun": ("in these if never run", "held-out families, never run"),
}
_BANDS = {"all": "all", "1.2": "1.2 to\n1.5×", "1.5": "1.5×\nor more", "2": "2×\nor more"}
_LEGEND = (
    "errors are of seconds, predicted against the measured median; noise: how far repeats differ; "
    "knee: |ln| of predicted / measured limit at which the slowdown passes 1.2"
)
_USE_LEGEND = (
    "error of seconds: the median over workloads of each one's median, by how much a point was "
    "slowed; factor: of the slowdown; ±25 % and interval: shares of points and of trials; in "
    "brackets: baselines, which predict uses never; “noise”: how far repeats differ"
)


def print_validation(proof: Evaluation, phase: str, verbose: bool) -> None:
    """The answer, a table of uses; with ``verbose`` each model, kills and parts of the simulation.

    ``phase`` is the one whose errors are shown, or ``all``.
    """
    from edgebench.slowdown.evaluation.use_scores import use_scores

    found = use_scores(proof.answers, phase)
    print_answer([_answer(found)])
    if found:
        _print_uses(found)
    lines = (*_cliff_lines(found), *_wrong_lines(found), *_swapped_lines(proof))
    print_lines(["", *lines, _USE_LEGEND])
    if verbose:
        _print_all(proof, phase)


def _answer(found: Sequence[UseScore]) -> str:
    """The error where memory matters, for each use, beside always saying that it doesn't."""
    said = []
    for use, (words, _) in _KNOWN.items():
        some = [one for one in found if (one.use, one.band) == (use, "1.5")]
        if best := next((one for one in some if not one.baseline), None):
            nothing = next((one.error for one in some if one.model == "unslowed"), None)
            beside = "" if nothing is None else f", “not slowed” by {nothing:.0%}"
            said.append(f"{best.error:.0%} {words} ({best.model}{beside})")
    if not said:
        return "No held-out point is slowed 1.5× or more: nothing to judge predictions by."
    return (
        "Where memory slows a workload 1.5× or more, half of the workloads are predicted within "
        + "; ".join(said)
        + "."
    )


def _print_uses(found: Sequence[UseScore]) -> None:
    """A row a use and model: errors by how much a point is slowed, the rest of 1.5× or more."""
    rows = []
    keys = list(dict.fromkeys((one.use, one.model) for one in found))
    before = ""
    for use, model in keys:
        own = {one.band: one for one in found if (one.use, one.model) == (use, model)}
        slowed = own.get("1.5")
        name = f"({model})" if own["all"].baseline else model
        cells = [_share(own[band].error if band in own else None) for band in _BANDS]
        rows.append(
            [
                *(_KNOWN[use][1] if use != before else "", name),
                *cells,
                *(_share(slowed.factor_error if slowed else None),),
                *(_share(slowed.within_25 if slowed else None),),
                *(_share(own["all"].coverage_90), _share(slowed.noise if slowed else None)),
                str(slowed.points if slowed else 0),
            ]
        )
        before = use
    rest = ("factor", "±25 %", "in 90 %\ninterval", "noise", "points\n≥ 1.5×")
    titles = ("known", "model", *_BANDS.values(), *rest)
    print_table(titles, rows, words=("known", "model"), keys=2, gap=1)


def _cliff_lines(found: Sequence[UseScore]) -> Iterator[str]:
    """How near the limit is from which steady rounds take twice as long."""
    for use, (_, words) in _KNOWN.items():
        some = [one for one in found if (one.use, one.band) == (use, "all") and one.cliffs]
        if best := next((one for one in some if not one.baseline), None):
            yield (
                f"{words}: {best.model} has the limit at which steady slowdown passes 2× within "
                f"6 % for {_share(best.cliff_within_6)} of {best.cliffs} workloads"
            )


def _wrong_lines(found: Sequence[UseScore]) -> Iterator[str]:
    """How often a slowdown is said in vain, and how often one is missed."""
    for use, (_, words) in _KNOWN.items():
        some = [one for one in found if (one.use, one.band) == (use, "all")]
        if best := next((one for one in some if not one.baseline), None):
            yield (
                f"{words}: {best.model} says 1.5× or more in vain at {best.false_alarms} of "
                f"{best.points} points, and misses it at {best.misses}"
            )


def _swapped_lines(proof: Evaluation) -> Iterator[str]:
    """How many bytes come back from swap, against how many the kernel counted."""
    ratios = [
        link.predicted / link.measured
        for link in proof.links
        if link.name == "missed" and link.measured > _MUCH
    ]
    if not ratios:
        yield "bytes back from swap: no trial here counted 20 MiB of them in its rounds"
        return
    middle = statistics.median(ratios)
    yield (
        f"bytes back from swap in a trial's rounds, where more than 20 MiB were counted: "
        f"simulated ÷ counted {middle:.2f} in the median of {len(ratios)} limits"
    )


def _print_all(proof: Evaluation, phase: str) -> None:
    for split, title in _TITLES.items():
        scores = [one for one in proof.scores if one.split == split and one.phase == phase]
        if scores:
            print_title(title.format(", ".join(proof.held_out)))
            _print_scores(scores)
    _print_viability(proof)
    _print_links(proof)
    print_lines(["", _LEGEND])


def _print_scores(scores: Iterable[Score]) -> None:
    titles = ("model", "cases", "median", "mean", "±5 %", "±10 %", "±15 %", "±25 %", "bias")
    rows = []
    for one in scores:
        within = (one.within_5, one.within_10, one.within_15, one.within_25)
        about = [one.model, str(one.count), _share(one.median_ape), _share(one.mape)]
        about += [*(f"{share:.0%}" for share in within), f"{one.bias:+.1%}"]
        about += [_share(one.coverage_90), _share(one.noise)]
        rows.append([*about, "-" if one.knee is None else f"{one.knee:.2f}"])
    print_table((*titles, "in interval", "noise", "knee"), rows, words=("model",))


def _print_viability(proof: Evaluation) -> None:
    if not proof.viability:
        return
    print_title("does a trial finish? Predicted without its network")
    titles = ("held out", "trials", "killed", "right", "wrongly viable", "wrongly killed")
    rows = [
        [
            *(one.split, str(one.trials), str(one.killed), f"{one.right:.1%}"),
            *(str(one.wrongly_viable), str(one.wrongly_killed), str(one.dangerous)),
            *(str(one.edges), _share(one.within_10), _share(one.median_error)),
        ]
        for one in proof.viability
    ]
    more = ("dangerous", "edges seen", "within 10 %", "median error")
    print_table((*titles, *more), rows, words=("held out",))


def _print_links(proof: Evaluation) -> None:
    if not proof.link_scores:
        return
    print_title("each part of the simulation alone")
    rows = [
        [
            *(one.name, str(one.count), f"{one.ratio:.2f}", f"{one.overall:.2f}"),
            *(f"{one.within_25:.0%}", "-" if one.rank is None else f"{one.rank:.2f}"),
        ]
        for one in proof.link_scores
    ]
    titles = ("part", "cases", "median ratio", "ratio of sums", "±25 %", "rank correlation")
    print_table(titles, rows, words=("part",))


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
