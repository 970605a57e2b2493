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


def test_one_layer_to_blame_is_named_with_the_reason(tmp_path: Path):
    """Share, price, phase, why by sizes, and faults: 100 MiB don't fit into 100 less 60."""
    words = words_of(make(tmp_path, [Made(), Made("100M", [LIMITED])] * 2))
    assert words == (
        "fc causes 91% of the 1.5 s that 100.0 MiB adds to a pass, mostly in executing "
        "(5 times as long): "
        "its 100.0 MiB of weights don't fit beside the runtime's 60.0 MiB; 12 major faults a pass"
    )


def test_a_limit_below_the_runtime_says_so(tmp_path: Path):
    """Then not even the runtime fits, and that is the reason."""
    words = words_of(make(tmp_path, [Made(), Made("50M", [LIMITED])] * 2))
    assert "the runtime's 60.0 MiB alone don't fit, its 100.0 MiB of weights on top" in words


def test_all_weights_together_may_be_the_reason(tmp_path: Path):
    """Under bulk all layers stay: 104 MiB don't fit beside 60, though 100 alone do."""
    made = [Made(), Made("162M", [LIMITED])] * 2
    words = words_of(make(tmp_path, made))
    assert "all layers' 104.0 MiB of weights don't fit beside the runtime's 60.0 MiB" in words


def test_no_reason_is_made_up(tmp_path: Path):
    """Where all fits, sizes explain nothing and nothing is said of them."""
    words = words_of(make(tmp_path, [Made(), Made("190M", [LIMITED])] * 2))
    assert "fit" not in words


def test_several_layers_together(tmp_path: Path):
    """Three that cause most of it together are named together."""
    more = {"conv": 0.42, "fc": 0.40, "act": 0.38}
    times = {name: (more[name] + UNLIMITED[name][0], *UNLIMITED[name][1:]) for name in EVERY}
    words = words_of(make(tmp_path, [Made(), Made("100M", [times])] * 2))
    names = "conv, fc and act"
    assert words == (
        f"{names} cause 100% of the 1.2 s that 100.0 MiB adds to a pass, nearly all in loading"
    )


def test_where_all_are_slower_nobody_stands_out(tmp_path: Path):
    """Many networks, each layer a little slower: the worst is named as what it is, a small part."""
    more = {"conv": 0.42, "fc": 0.40, "act": 0.38}
    times = {name: (more[name] + UNLIMITED[name][0], *UNLIMITED[name][1:]) for name in EVERY}
    path = make(tmp_path, [Made(), Made("100M", [times])] * 2, networks=("a", "b", "c"))
    words = words_of(path)
    assert words.startswith("no layer stands out in the 3.6 s that 100.0 MiB adds to a pass")
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
        "8 layers of tail cause 100% of the 4.0 s that 100.0 MiB adds to a pass, nearly all in "
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


def test_time_between_layers_is_no_cause_if_it_is_a_small_part(tmp_path: Path):
    """It is more than each layer's, but all layers are most of it."""
    times = {name: (0.30 + UNLIMITED[name][0], *UNLIMITED[name][1:3], 0.05) for name in EVERY}
    words = words_of(make(tmp_path, [Made(), Made("100M", [times])] * 2))
    assert words.startswith("conv, fc and act cause")


def test_the_glue_may_be_to_blame(tmp_path: Path):
    """Time between layers is nobody's layer, and said so."""
    between = slower("conv", (0.10, 0.20, 0.05, 0.50))
    words = words_of(make(tmp_path, [Made(), Made("100M", [between])] * 2))
    assert words.startswith("the time between layers causes 100% of the 2.0 s")


def test_what_repeats_hide_is_not_the_cause(tmp_path: Path):
    """Where passes at the limit overlap with unlimited ones, nobody is accused."""
    slow = slower("fc", (2.00, 0.10, 0.10, 0.01))
    limited = [Made("100M", [LIMITED])] * 2
    words = words_of(make(tmp_path, [Made(), Made(rounds=[slow]), *limited]))
    assert "(1.34 times as long), but can't tell whether that is slower: repeats differ by" in words
    assert "causes" not in words


@pytest.mark.promise("A layer is named as the cause only if its own repeats support it.")
def test_a_layer_that_is_slow_in_one_trial_alone_is_not_the_cause(tmp_path: Path):
    """Every pass is slower, but each time through another layer."""
    trials = [Made("100M", [slower(name, (1.0, 0.2, 0.1, 0.01))]) for name in ("conv", "fc")]
    words = words_of(make(tmp_path, [Made(), Made(), *trials]))
    assert words.startswith("can't tell which layer causes the 900.0 ms that 100.0 MiB adds")


def test_faster_is_told_as_faster(tmp_path: Path):
    """A limit at which passes are surely faster is not said to be like unlimited."""
    words = words_of(make(tmp_path, [Made(rounds=[LIMITED]), Made("100M")] * 2))
    assert words.endswith(", so it is faster there")


def test_a_killed_limit_is_explained(tmp_path: Path):
    """How many ended how, where, what the runtime takes, and what may help."""
    killed = Made("40M", outcome="oom-killed", reason="killed by the kernel in import")
    words = words_of(make(tmp_path, [Made(), Made(), killed, killed]))
    assert words == (
        "no trial finished at 40.0 MiB: 2 killed by the kernel in import; the runtime "
        "alone takes 60.0 MiB; with --swap 2G it might finish"
    )


def test_how_much_swap_was_free_is_not_in_the_first_sentence(tmp_path: Path):
    """Where it was killed is; the rest was printed when the trial ended."""
    why = "killed by the kernel in import; killed while 1.75 GiB of 2.00 GiB of swap were free: why"
    killed = Made("40M", outcome="oom-killed", reason=why)
    words = words_of(make(tmp_path, [Made(), Made(), killed]))
    assert words.startswith("no trial finished at 40.0 MiB: 1 killed by the kernel in import; the")


def test_overlap_is_told(tmp_path: Path):
    """Busy time that adds up to more than the clock's is not left to be found out."""
    path = make(tmp_path, [Made(settings={"schedule": "partial"})] * 2)
    for trial in ("0001", "0002"):
        write_events(path, trial, overlapping(Made()))
    words = words_of(path)
    assert "partial overlaps layers: their times add up to 4.0 s in a pass of 3.0 s" in words


def test_one_trial_has_no_spread(tmp_path: Path):
    """A single repeat is shown, with a warning and what to type."""
    words = words_of(make(tmp_path, [Made(), Made("100M", [LIMITED])]))
    assert "can't tell whether that is slower: one trial doesn't tell" in words
    assert "one trial per limit, so their spread is unknown; try --repeats 3" in words


def test_medians_that_do_not_add_up_are_told(tmp_path: Path):
    """Where each trial has another slow layer, the medians of layers hide what passes take."""
    trials = [Made(rounds=[slower(name, (1.0, 0.2, 0.1, 0.01))]) for name in EVERY]
    assert "passes differ" in words_of(make(tmp_path, trials))


def test_collections_within_rounds_are_told_once(tmp_path: Path):
    """A line for the workload, of all its trials."""
    made = [Made(collections_s=0.2), Made(collections_s=0.0), Made("100M", collections_s=0.3)]
    words = words_of(make(tmp_path, made))
    assert words.count("garbage collections took up to 300.0 ms of the rounds of 2 trials") == 1


def test_missing_peaks_are_told(tmp_path: Path):
    """The kernel's fault, not the table's."""
    words = words_of(make(tmp_path, [Made(peak=False)] * 2))
    assert words == "no peaks: this kernel can't reset its high-water mark"
