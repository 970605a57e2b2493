"""docs/explanation/slowdown-model.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean, median

from claims import published, replay
from claims import validation as v
from claims.kept import MIB, figures, rows, sweep
from claims.texts import Claim, says, table

PAGE = "docs/explanation/slowdown-model.md"
SPLITS = {
    "limit-inside": "a limit, others on both sides",
    "limit-outside": "the tightest or widest limit",
    "network": "a network; its unlimited trials known",
    "network-unrun": "a network, not one trial known",
    "family": "a family",
    "schedule": "a schedule",
    "held-out": "the two families apart",
    "held-out-unrun": "the same, not one trial known",
}
#: Limits as shares of the measured demand, as the scenario has them.
SHARES = (1.2, 0.95, 0.88, 0.8, 0.7, 0.6, 0.5)


def claims() -> Iterator[Claim]:
    """In the page's order."""
    yield from _first_words()
    base = sweep("edgecaffe").trials["base_bytes"].median() / MIB
    yield says("leaves about {} MiB of anonymous memory", f"{base:.0f}")
    yield from _trainings()
    errors = published.errors()
    names = ("unslowed", "interpolation", "hinge", "pooled")
    yield table("of all four schedules at once:", [(f"`{n}`", f"{errors[n]:.1f} %") for n in names])
    yield says("on disk swap: {} trials, all finished", len(_ok("validation")))
    yield table("Models of one curve can't predict networks left out", _rows())
    yield from _known_and_unseen()
    yield from _where_slowed()
    yield from _viability()
    yield from _in_the_way()
    yield from _adaptive()
    yield says(
        "on a shared virtual machine, by {} % in the median",
        f"{v.noise(v.answers('limit-inside')):.1f}",
    )


def _trainings() -> Iterator[Claim]:
    demands = figures("training_demand")
    off = median(100 * abs(one["simulated"] / one["measured"] - 1) for one in demands)
    yield says(
        "Of {} trainings the simulated demand is off by {} % in the median",
        len(demands),
        _p(off, 1),
    )
    ((_, _, count, told, back, nothing),) = (
        row for row in rows("training_slowdown") if row[0] == "total" and row[1] != "all"
    )
    yield says(
        "({} points of two sweeps), the median error of whole later steps is {} %; predicting"
        ' "not slowed" has {} % there, and an allocator that gives freed memory back at once {} %',
        *(count, *(one.removesuffix(" %") for one in (told, nothing, back))),
    )


def _ok(scenario: str) -> Sequence[object]:
    trials = sweep(scenario).trials
    assert set(trials["outcome"]) == {"ok"}
    return list(trials["trial"])


def _slowed(split: str, model: str, factor: float) -> list[v.Answer]:
    return v.where(split, model, lambda answer: answer.slowdown >= factor)


def _p(per_cent: float | None, digits: int = 0) -> str:
    return f"{per_cent:.{digits}f}"


def _median(split: str, model: str = "corrected") -> str:
    return _p(v.median_error(v.answers(split, model)), 1)


def _first_words() -> Iterator[Claim]:
    apart, known = v.answers("held-out"), v.answers("network")
    yield says(
        "{} of their {} points are slowed twofold",
        len(_slowed("held-out", "corrected", 2)),
        len(apart),
    )
    yield says("the median error is {} %. Predicting", _median("network"))
    yield says(
        '"not slowed" for every point has a median error of {} %', _median("network", "unslowed")
    )
    worse, worst = (_slowed("network", "corrected", factor) for factor in (1.5, 2))
    yield says(
        "At the {} of {} points that are slowed 1.5 times or more the median error is {} %, at the {}"
        " that are slowed twice or more {} %. Without unlimited trials it is {} % over all points",
        *(len(worse), len(known), _p(v.median_error(worse), 1)),
        *(len(worst), _p(v.median_error(worst), 1), _median("network-unrun")),
    )
    yield says(
        "they contain {} % of trials ({} % in the two families)",
        *(_p(v.coverage(v.answers(split))) for split in ("network-unrun", "held-out-unrun")),
    )
    model = [v.viability(split) for split in ("network", "held-out")]
    right = sum(one.right * one.trials for one in model) / sum(one.trials for one in model)
    assert v.rule_edges()[0] == v.rule_edges()[1]
    yield says(
        "is right for {} % of {} trials and within 10 % at all {} edges; the fitted model is right"
        " for {} %, at all {} edges too",
        *(_p(v.rule_right(), 1), len(v.viability_trials()), v.rule_edges()[1]),
        *(_p(100 * right, 1), sum(one.edges for one in model)),
    )


def _rows() -> Iterator[tuple[str, ...]]:
    """The table of errors."""
    for split, words in SPLITS.items():
        for model in v.models(split):
            some = v.answers(split, model)
            shares = v.within(some, 0.1), v.within(some, 0.25)
            held = v.coverage(some)
            yield (
                *(words, f"`{model}`", str(len(some))),
                *(f"{_p(x, 1)} %" for x in (v.median_error(some), v.mean_error(some))),
                *(f"{_p(x)} %" for x in shares),
                *(f"{v.bias(some):+.1f} %", "-" if held is None else f"{_p(held)} %"),
                f"{v.noise(some):.1f} %",
            )
            words = ""


def _known_and_unseen() -> Iterator[Claim]:
    inside = {model: v.answers("limit-inside", model) for model in v.models("limit-inside")}
    noise = v.noise(inside["corrected"])
    yield says(
        "{} % between other limits, where 1.5 × the noise is {} %. The medians of interpolation"
        " ({} %) and the hinge ({} %) are near it",
        *(_median("limit-inside"), _p(1.5 * noise, 1)),
        *(_median("limit-inside", "interpolation"), _median("limit-inside", "hinge")),
    )
    yield says(
        "Their means ({} % and {} %, against {} %)",
        *(_p(v.mean_error(inside[m]), 1) for m in ("interpolation", "hinge", "corrected")),
    )
    yield says(
        "with unlimited trials: {} % (the two families: {} %), physics alone with nothing fitted on"
        " networks {} % ({} %). Within ±25 %: {} % of the networks left out in turn, {} % of the two"
        " families",
        *(_median(s, m) for m in ("corrected", "physics") for s in ("network", "held-out")),
        *(_p(v.within(v.answers(split), 0.25)) for split in ("network", "held-out")),
    )
    total, apart = (
        v.where(s, "corrected", lambda a: a.point["phase"] == "total")
        for s in ("network", "held-out")
    )
    first, start = (
        v.where("network", "corrected", lambda a, phase=phase: a.point["phase"] == phase)
        for phase in ("first", "start")
    )
    yield says(
        "with {} % ({} % of the two families) and a median of {} % ({} %), first executions with {} %",
        *(_p(v.within(total, 0.25)), _p(v.within(apart, 0.25))),
        *(_p(v.median_error(total), 1), _p(v.median_error(apart), 1), _p(v.within(first, 0.25))),
    )
    yield says(
        "it is within ±25 % at {} % of its points, with a median of {} %",
        *(_p(v.within(start, 0.25)), _p(v.median_error(start), 1)),
    )
    yield says(
        "without one the error is {} % ({} %)", _median("network-unrun"), _median("held-out-unrun")
    )


def _where_slowed() -> Iterator[Claim]:
    worst, known = _slowed("network", "corrected", 2), _slowed("limit-inside", "corrected", 2)
    yield says(
        "({} of {} points), `corrected` is off by {} % in the median for networks left out (`physics`"
        " by {} %); for measured ones ({} of {}) by {} %",
        *(len(worst), len(v.answers("network")), _p(v.median_error(worst))),
        *(_p(v.median_error(_slowed("network", "physics", 2))), len(known)),
        *(len(v.answers("limit-inside")), _p(v.median_error(known))),
    )
    yield says("there its median error is {} %, as much", _median("held-out", "unslowed"))
    yield says(
        "contain {} % of trials at measured networks' inner limits, {} % for networks left out, {} %"
        " in the two families; {} % at outermost limits. For networks without trials they contain {}"
        " and {} %",
        *(
            _p(v.coverage(v.answers(split)))
            for split in ("limit-inside", "network", "held-out", "limit-outside")
        ),
        *(_p(v.coverage(v.answers(split))) for split in ("network-unrun", "held-out-unrun")),
    )


def _viability() -> Iterator[Claim]:
    splits = ("network", "held-out")
    model = [v.viability(split) for split in splits]
    assert not any(one.dangerous for one in model)
    yield says(
        "{} trials with a bounded swap, {} killed): right for {} % of trials of networks left out and"
        " {} % of the two families",
        *(len(v.viability_trials()), sum(one.killed for one in model)),
        *(_p(100 * one.right, 1) for one in model),
    )
    yield says("is right for {} and {} %. No trial", *(_p(v.rule_right(s), 1) for s in splits))
    yield says("all {} edges between a limit that killed", sum(one.edges for one in model))


def _in_the_way() -> Iterator[Claim]:
    by_share = [_p(v.within(_near(share, "corrected"), 0.25)) for share in SHARES]
    wide, flat = by_share[0], _near(1.2, "unslowed")
    yield says(
        "{} % at 120 % of demand, {} % at 95 %, {} % at 88 %, {} % at 80 %, and {} %, {} % and {} % at"
        " 70 %, 60 % and 50 %",
        *by_share,
    )
    pairs = [repeats for repeats in v.repeats() if len(repeats) == 2]
    apart = [abs(one / other - 1) for a, b in pairs for one, other in ((a, b), (b, a))]
    yield says(
        "differ by {} % in the median, one is within ±25 % of the other at {} % of points",
        *(_p(100 * median(apart)), _p(100 * mean(x <= 0.25 for x in apart))),
    )
    yield says(
        "at {} % of the {} points of the eight other networks (median {} %); `corrected` has {} % there",
        *(_p(v.within(flat, 0.25), 1), len(flat), _p(v.median_error(flat), 1), wide),
    )
    yield says(
        "is within ±25 % for {} % of points", _p(v.within(v.moved("network", "physics"), 0.25))
    )


def _near(share: float, model: str) -> list[v.Answer]:
    """Answers at this share of demand, which limits in whole pages miss by a little."""
    return v.where(
        "network",
        model,
        lambda answer: min(SHARES, key=lambda s: abs(s - answer.point["share"])) == share,
    )


def _adaptive() -> Iterator[Claim]:
    second = ("768M", "384M", "256M", "128M")
    taken, off = replay.adaptive()
    (two, two_off), (five, five_off), (one, one_off) = (
        replay.grid(second, 2),
        replay.grid(second, 5),
        replay.grid(None, 1),
    )
    yield says(
        "on an edgecaffe sweep of the disk as it is ({} trials",
        sum(map(len, replay.measured()[1].values())),
    )
    yield says(
        "takes {} trials and then predicts a round's time at all limits within {} %",
        *(taken, _p(off, 1)),
    )
    yield says(
        "is off by {} % with as many trials ({}) and by {} % with all five repeats ({}); one trial of"
        " each limit ({}) by {} %",
        *(_p(two_off, 1), two, _p(five_off, 1), five, one, _p(one_off, 1)),
    )
