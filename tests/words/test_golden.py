"""Every kind of sentence about a workload, held against the table that people have read."""

from __future__ import annotations

from tests.words.golden import FILE, lines


def test_each_case_has_its_sentences():
    """``python -m tests.words.golden`` writes the table anew."""
    assert list(lines()) == FILE.read_text(encoding="utf-8").splitlines()
