"""What is said of the import and the first round below a limit, held against numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs
from sentence_making import KILLED, made, point, rounds

from edgebench.records import EndedIn
from edgebench.report.tables import limits_table
from edgebench.results.point_facts import PointFacts
from edgebench.results.spread import Spread
from edgebench.words.fits import viability_sentences
from edgebench.words.in_short import workload_sentence
from edgebench.words.outcomes import IMPORTING, doing_words
from edgebench.words.slowdown import slowdown_sentences


def imported(one: PointFacts, low_s: float, high_s: float, count: int = 3) -> PointFacts:
    """The point with fresh processes that import their runtime in so many seconds."""
    spread = Spread((low_s + high_s) / 2, low_s, high_s, count)
    return replace(one, times_s={**one.times_s, "import": spread})


FREE = imported(rounds("max", 1.0, 0.5), 1.9, 2.1)


def test_a_longer_import_is_told_with_the_first_round():
    """In one part of the sentence where the same limit delays both, and in the answer."""
    workload = made(FREE, imported(rounds("100M", 1.25, 0.5), 7.0, 9.0))
    said = workload_sentence(workload, "it")
    both = (
        "; at 100.0 MiB importing its runtime takes 6.0 s longer, and its first round 250.0 ms "
        "longer; "
    )
    assert both in said
    assert slowdown_sentences(workload)[1] == (
        "Importing its runtime takes 2.0 s (3 trials, 1.9 s to 2.1 s); at 100.0 MiB 8.0 s "
        "(3 trials, 7.0 s to 9.0 s): 4 times as long."
    )


@pytest.mark.parametrize(
    ("low_s", "high_s", "count"), [(2.0, 9.0, 3), (8.0, 8.0, 1), (2.11, 2.2, 3)]
)
def test_an_import_is_called_longer_only_where_repeats_prove_it(
    low_s: float, high_s: float, count: int
):
    """Not where repeats overlap, not from one trial, not for a few percent."""
    workload = made(FREE, imported(rounds("100M", 1.0, 0.5), low_s, high_s, count))
    said = [workload_sentence(workload, "it"), *slowdown_sentences(workload)]
    assert not any("mporting" in words for words in said)


def test_kills_while_importing_are_told_as_that():
    """Where all that a limit ended were importing; of a mixture nothing is said."""
    killed = replace(point("90M", outcomes=KILLED), ended_in=EndedIn("import"))
    words = "killed at 90.0 MiB while importing its runtime."
    assert workload_sentence(made(FREE, killed), "it").endswith(words)
    answer = "No trial finished at 90.0 MiB: 3 killed for memory while importing its runtime."
    assert viability_sentences(made(FREE, killed))[-1] == answer
    tighter = replace(killed, point="p-80M", limits=structs.replace(killed.limits, label="80M"))
    assert viability_sentences(made(FREE, killed, tighter))[-1].endswith(
        ": 6 killed for memory while importing its runtime."
    )
    mixed = made(FREE, replace(killed, ended_in=None))
    assert workload_sentence(mixed, "it").endswith("killed at 90.0 MiB.")
    assert "importing" not in " ".join(viability_sentences(mixed))


def test_kills_in_a_layer_are_told_as_that():
    """With how slow the rounds before were; of several limits it is the widest one's."""
    free, lost = (
        rounds("max", 1.0, 0.5),
        replace(point("90M", outcomes=KILLED), ended_in=EndedIn("load")),
    )
    before = Spread(1.75, 1.7, 1.8, 3)
    ended = replace(lost, ended_in=EndedIn("execute", "n", "fc"), rounds_before_end_s=before)
    did = "while executing fc, after rounds that took 3.5 times as long."
    assert workload_sentence(made(free, ended), "it").endswith(f"; killed at 90.0 MiB {did}")
    tighter = replace(lost, point="p-80M", limits=structs.replace(lost.limits, label="80M"))
    said = viability_sentences(made(free, ended, tighter))[-1]
    assert said.endswith(f": 6 killed for memory, at 90.0 MiB {did}")


@pytest.mark.parametrize(
    ("ended_in", "expected"),
    [
        (EndedIn("import"), IMPORTING),
        (EndedIn("load", "duo", "import"), "loading import"),
        (EndedIn("first", "n", "a.1"), "executing a.1"),
        (EndedIn("execute", "n", "fc"), "executing fc"),
        (EndedIn("forward", "alexnet"), ""),
        (None, ""),
    ],
)
def test_what_a_trial_was_doing_is_said_of_imports_and_layers(
    ended_in: EndedIn | None, expected: str
):
    """A phase of a whole network says nothing that its outcome does not."""
    assert doing_words(ended_in) == expected


def test_the_limits_table_has_the_import():
    """A column of its own, empty where no fresh process ran."""
    table = limits_table(made(FREE, rounds("100M", 1.25, 0.5)))
    place = table.columns.index("import (s)")
    assert [row[place] for row in table.rows] == ["2 ±5%", ""]
