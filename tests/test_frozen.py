"""The frozen numbers: what of an answer is kept, and what counts as a difference."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.frozen import freeze
from benchmarks.frozen.made_up import made_up


def test_numbers_and_identities_are_kept_and_sentences_are_not() -> None:
    """Floats are rounded; a spread is a short list; paths and nulls are left out."""
    answer = {
        "path": "/nowhere",
        "network": "lenet",
        "says": "it was killed",
        "seconds": 1.23456789,
        "count": 123456789,
        "unknown": None,
        "peak": {"median": 2.0, "low": 1.0, "high": 3.0, "count": 4},
        "same": {"median": 2.0, "low": 2.0, "high": 2.0, "count": 1},
    }
    assert freeze.numbers(answer) == {
        "network": "lenet",
        "seconds": 1.23457,
        "count": 123456789,
        "peak": [2.0, 1.0, 3.0, 4],
        "same": [2.0, 1],
    }


def test_a_difference_is_named_by_its_path() -> None:
    """Another number, one that is gone, lists of other lengths; not the last digit of a float."""
    old = {"a": [1.0, 2.0], "b": {"c": 1}, "d": [1], "e": True}
    new = {"a": [1.000001, 2.1], "b": {}, "d": [1, 2], "e": 1}
    assert [path for path, _, _ in freeze.differences(old, new)] == [".a[1]", ".b.c", ".d", ".e"]


def test_made_up_sweeps_have_their_frozen_numbers(tmp_path: Path) -> None:
    """They are the same each time, and ``show`` gives of each what was frozen."""
    compared = 0
    for name, path in made_up(tmp_path).items():
        file = freeze.STORE / f"{freeze.MADE}{name}" / "show.json"
        if file.exists():
            new = json.loads(json.dumps(freeze.numbers(freeze.show(path))))
            assert [*freeze.differences(json.loads(file.read_text()), new)] == []
            compared += 1
    assert compared == 8
