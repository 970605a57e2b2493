"""What sentences on doubts make of records that anybody may have made."""

from __future__ import annotations

from edgebench.records import Doubt
from edgebench.words.doubts import SENTENCES, doubt_sentence, doubt_sentences
from tests.words.golden import doubts


def test_the_table_of_sentences_has_each_kind() -> None:
    """So a new kind is read aloud, too."""
    assert {doubt.kind for doubt in doubts()} == {*SENTENCES}


def test_a_doubt_without_numbers_has_a_sentence_and_one_of_an_unknown_kind_none() -> None:
    """A record may lack them, have strange ones, or come from another version."""
    assert doubt_sentences([Doubt("made_up")]) == []
    for kind in SENTENCES:
        assert doubt_sentence(Doubt(kind))
        strange = dict.fromkeys(next((d.numbers for d in doubts() if d.kind == kind), {}), -9e18)
        assert doubt_sentence(Doubt(kind, strange), Doubt(kind, {"share": 9e18}, ["a", "b", "c"]))
