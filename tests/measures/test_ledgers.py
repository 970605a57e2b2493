"""Ledgers of a made-up process whose every part is known: each term is right, nothing is left."""

from __future__ import annotations

import pytest
from looking import MIB, PARTS, look, resident, usage

from edgebench.measures.ledger import (
    Figure,
    Ledger,
    Term,
    charged_to_own,
    own_memory,
    own_to_malloc,
    resident_to_charged,
    resident_to_proportional,
)
from edgebench.measures.strategy import ErrorBar

EXACT = ErrorBar(0, "made up")


def ledger(source: int, target: int, *terms: Term) -> Ledger:
    """A ledger between two sizes."""
    ends = [
        Figure(name, size, "0001", "peak", EXACT)
        for name, size in zip("ab", (source, target), strict=True)
    ]
    return Ledger(ends[0], ends[1], terms)


def sizes(terms: list[Term]) -> dict[str, int]:
    """Term's name → MiB."""
    return {term.name: term.size_bytes // MIB for term in terms}


def test_from_resident_to_charged() -> None:
    """Mapped libraries go, page cache, swap cache, GNU time, page tables and the kernel come."""
    seen = look()
    terms = resident_to_charged(seen)
    assert ledger(resident(seen), usage(seen), *terms).unexplained_bytes == 0
    assert sizes(terms) == {
        "file-pages-elsewhere": -PARTS["mapped elsewhere"],
        "page-cache": PARTS["page cache"],
        "swap-cache": PARTS["swap cache"],
        "other-processes": PARTS["gnu time"],
        "page-tables": PARTS["page tables"],
        "kernel-memory": PARTS["kernel"],
    }


def test_from_charged_to_own() -> None:
    """The cgroup's figure without what isn't the process's own, with what of it is in swap."""
    seen = look()
    own = own_memory(seen)
    assert own is not None
    assert ledger(usage(seen), own, *charged_to_own(seen)).unexplained_bytes == 0
    assert sizes(charged_to_own(seen))["swapped-out"] == PARTS["swapped"]


@pytest.mark.parametrize("weights_are_own", [True, False])
def test_from_own_to_malloc(weights_are_own: bool) -> None:
    """Weights are own memory where the loader copies them, file pages where it maps them."""
    seen = look() if weights_are_own else look(weights=0)
    own = own_memory(seen)
    assert own is not None
    terms = own_to_malloc(seen, seen, weights_are_own)
    assert ledger(own, seen["heap_used_bytes"], *terms).unexplained_bytes == 0


def test_from_resident_to_proportional() -> None:
    """What two processes map is whole in each one's resident set, half in the proportional."""
    seen = look()
    terms = resident_to_proportional(seen)
    assert ledger(resident(seen), seen["pss_bytes"], *terms).unexplained_bytes == 0
    assert sizes(terms) == {
        "shared-pages": -PARTS["mapped elsewhere"],
        "share-of-shared": PARTS["mapped elsewhere"] // 2,
    }


def test_version_2_tells_page_tables_itself() -> None:
    """Where memory.stat has page tables, those of all processes are taken, not VmPTE."""
    seen = look() | {"charged_page_tables_bytes": 3 * MIB}
    assert sizes(resident_to_charged(seen))["page-tables"] == 3
    assert ledger(resident(seen), usage(seen), *resident_to_charged(seen)).unexplained_bytes == 0


def test_an_older_kernel_leaves_more_unexplained() -> None:
    """What isn't told is no term: the rest grows by it, and nothing is made up."""
    seen = look()
    told = {k: v for k, v in seen.items() if not k.startswith("charged_kernel")}
    terms = resident_to_charged(told)
    assert "kernel-memory" not in sizes(terms)
    rest = ledger(resident(seen), usage(seen), *terms).unexplained_bytes
    assert rest == PARTS["kernel"] * MIB


@pytest.mark.parametrize(
    ("size_mib", "rest_mib", "closes"),
    [(50, 2, True), (50, 2.1, False), (400, 8, True), (400, -8.1, False)],
)
def test_a_rest_is_small_up_to_a_fiftieth_or_2_mib(
    size_mib: int, rest_mib: float, closes: bool
) -> None:
    """Whichever is larger, and of either sign."""
    size, rest = size_mib * MIB, round(rest_mib * MIB)
    made = ledger(size - max(rest, 0), size - max(rest, 0) + rest)
    assert made.unexplained_bytes == rest
    assert made.closes is closes


def test_a_ledger_as_json_has_its_four_keys() -> None:
    """from, to, terms, unexplained_bytes; a term says what it is and by what it was told."""
    term = Term("page-cache", 5, "page cache", "memory.stat")
    told = ledger(10, 18, term).to_json()
    assert (told["from"], told["to"], told["unexplained_bytes"]) == ("a", "b", 3)
    assert (told["from_bytes"], told["to_bytes"]) == (10, 18)
    assert told["terms"] == [
        {"name": "page-cache", "size_bytes": 5, "says": "page cache", "measured": "memory.stat"}
    ]
