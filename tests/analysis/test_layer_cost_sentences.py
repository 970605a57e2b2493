"""What the table says in words, for every kind of finding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from layer_cost_results import (
    LIMITED,
    UNLIMITED,
    Made,
    make,
    overlapping,
    slower,
    table_of,
    write_events,
)

from edgebench.results.point_facts import point_facts
from edgebench.results.results import load
from edgebench.words.layers import layer_cost_sentences

EVERY = ("conv", "fc", "act")


def words_of(path: Path) -> str:
    """All that is said of the one table."""
    return "\n".join(layer_cost_sentences(table_of(path)))


MORE_S = {"conv": 0.42, "fc": 0.40, "act": 0.38}
EACH = {name: (MORE_S[name] + UNLIMITED[name][0], *UNLIMITED[name][1:]) for name in EVERY}
BETWEEN = {name: (0.30 + UNLIMITED[name][0], *UNLIMITED[name][1:3], 0.05) for name in EVERY}
SLOW = slower("fc", (2.00, 0.10, 0.10, 0.01))
KILLED = Made("40M", outcome="oom-killed", reason="killed by the kernel in import")
#: Case → its trials, and what is said and is not said of them.
CASES: dict[str, tuple[list[Made], tuple[str, ...], tuple[str, ...]]] = {
    "one layer that does not fit": (
        [Made(), Made("100M", [LIMITED])] * 2,
        (
            "fc causes 91% of the 1.5 s that 100.0 MiB adds to a round, mostly in executing "
            "(5 times as long): its 100.0 MiB of weights don't fit beside the runtime's 60.0 MiB; "
            "12 major faults a round",
        ),
        ("\n",),
    ),
    "a limit below the runtime": (
        [Made(), Made("50M", [LIMITED])] * 2,
        ("the runtime's 60.0 MiB alone don't fit, its 100.0 MiB of weights on top",),
        (),
    ),
    "all weights together, which bulk holds": (
        [Made(), Made("162M", [LIMITED])] * 2,
        ("all layers' 104.0 MiB of weights don't fit beside the runtime's 60.0 MiB",),
        (),
    ),
    "sizes that explain nothing": ([Made(), Made("190M", [LIMITED])] * 2, (), ("fit",)),
    "several layers": (
        [Made(), Made("100M", [EACH])] * 2,
        (
            "conv, fc and act cause 100% of the 1.2 s that 100.0 MiB adds to a round, nearly all "
            "in loading",
        ),
        ("\n",),
    ),
    "a small part between layers": (
        [Made(), Made("100M", [BETWEEN])] * 2,
        ("conv, fc and act cause",),
        (),
    ),
    "the time between layers": (
        [Made(), Made("100M", [slower("conv", (0.10, 0.20, 0.05, 0.50))])] * 2,
        ("the time between layers causes 100% of the 2.0 s",),
        (),
    ),
    "repeats that overlap": (
        [Made(), Made(rounds=[SLOW]), *[Made("100M", [LIMITED])] * 2],
        ("(1.34 times as long): no clear change (",),
        ("causes",),
    ),
    "faster": ([Made(rounds=[LIMITED]), Made("100M")] * 2, (", so it is faster there",), ()),
    "killed": (
        [Made(), Made(), KILLED, KILLED],
        (
            "no trial finished at 40.0 MiB: 2 killed by the kernel in import; the runtime "
            "alone takes 60.0 MiB; with --swap 2G it might finish",
        ),
        ("\n",),
    ),
    "one trial": (
        [Made(), Made("100M", [LIMITED])],
        (
            "one trial doesn't tell",
            "one trial per limit, so their spread is unknown; try --repeats 3",
        ),
        (),
    ),
    "medians that do not add up": (
        [Made(rounds=[slower(name, (1.0, 0.2, 0.1, 0.01))]) for name in EVERY],
        ("rounds differ",),
        (),
    ),
    "collections": (
        [Made(collections_s=0.2), Made(collections_s=0.0), Made("100M", collections_s=0.3)],
        ("garbage collections took up to 300.0 ms of the rounds of 2 trials",),
        (),
    ),
    "no peaks": (
        [Made(peak=False)] * 2,
        ("no peaks: this kernel can't reset its high-water mark",),
        ("\n",),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_finding_has_its_words(tmp_path: Path, case: str):
    """Who is to blame, why, what repeats leave of it, and what the numbers lack; no more."""
    trials, said, unsaid = CASES[case]
    words = words_of(make(tmp_path, trials))
    assert [one for one in said if words.count(one) != 1] == []
    assert [one for one in unsaid if one in words] == []


def test_where_all_are_slower_nobody_stands_out(tmp_path: Path):
    """Many networks, each layer a little slower: the worst is named as what it is, a small part."""
    made = [Made(), Made("100M", [EACH])] * 2
    words = words_of(make(tmp_path, made, networks=("a", "b", "c")))
    assert words.startswith("no layer stands out in the 3.6 s that 100.0 MiB adds to a round")
    assert words.endswith("the worst, a's conv, causes 12%")


def test_a_part_of_the_network_is_named_where_its_layers_cause_most_together(tmp_path: Path):
    """Eight layers of one part, none of which stands out, beside others that hardly matter."""
    made = [Made(), Made("100M", [slower("fc", (0.80, 0.10, 0.10, 0.01))])] * 2
    table = table_of(make(tmp_path, made, networks="abcdefgh"))
    rows = [
        replace(row, network="net", name=f"{'tail' if row.name == 'fc' else 'body'}.{n}")
        for n, row in enumerate(table.layers)
    ]
    words = layer_cost_sentences(replace(table, layers=rows))[0]
    assert words == (
        "8 layers of tail cause 100% of the 4.0 s that 100.0 MiB adds to a round, nearly all in "
        "loading"
    )


def test_rounds_of_one_walk_are_its_repeats(tmp_path: Path):
    """One process shows its layers' spread; with a second one the processes do."""
    walk = [Made(rounds=[UNLIMITED] * 5, step=0), Made("100M", [LIMITED] * 5, step=1)]
    assert words_of(make(tmp_path / "one", walk)).startswith("fc causes 91% of the 1.5 s")
    slow = slower("fc", (2.00, 0.10, 0.10, 0.01))
    other = [walk[0], Made("100M", [slow] * 5, step=1)]
    table = table_of(make(tmp_path / "two", [*walk, *other]))
    assert table.costs[0].at.clock_s.count == 2
    fresh = table_of(make(tmp_path / "fresh", [Made(rounds=[UNLIMITED] * 5), *walk]))
    assert (fresh.unlimited.clock_s.count, fresh.costs[0].at.clock_s.count) == (2, 4)


def test_a_walked_pass_is_compared_with_its_own_process(tmp_path: Path):
    """The second process is twice as slow, fresh ones are not: the factor is that of the points."""
    slow, slow_limited = (
        {name: tuple(2 * seconds for seconds in own) for name, own in times.items()}
        for times in (UNLIMITED, LIMITED)
    )
    visits = [
        Made(label, [times] * 5, step=step, around_s=around_s)
        for around_s, walk in ((1.15, (UNLIMITED, LIMITED)), (2.3, (slow, slow_limited)))
        for step, (label, times) in enumerate(zip(("max", "100M"), walk, strict=True))
    ]
    path = make(tmp_path, [*visits, *[Made()] * 3])
    (cost,) = table_of(path).costs
    (point,) = (p for p in point_facts(load(path).sweeps[0]) if p.limits.label == "100M")
    assert cost.ratio == point.ratios["total"]
    assert cost.slowdown == pytest.approx(2.69 / 1.15)
    assert cost.at.clock_s.median == pytest.approx(1.5 * 2.69)


@pytest.mark.promise("A layer is named as the cause only if its own repeats support it.")
def test_a_layer_that_is_slow_in_one_trial_alone_is_not_the_cause(tmp_path: Path):
    """Every pass is slower, but each time through another layer."""
    trials = [Made("100M", [slower(name, (1.0, 0.2, 0.1, 0.01))]) for name in ("conv", "fc")]
    words = words_of(make(tmp_path, [Made(), Made(), *trials]))
    assert words.startswith("can't tell which layer causes the 900.0 ms that 100.0 MiB adds")


def test_overlap_is_told(tmp_path: Path):
    """Busy time that adds up to more than the clock's is not left to be found out."""
    path = make(tmp_path, [Made(settings={"schedule": "partial"})] * 2)
    for trial in ("0001", "0002"):
        write_events(path, trial, overlapping(Made()))
    words = words_of(path)
    assert "partial overlaps layers: their times add up to 4.0 s in a round of 3.0 s" in words
