"""The working set: what a steady round needs, from touched pages, charges and spans."""

from __future__ import annotations

from typing import Any

from edgebench.cgroups.process_files import TouchedPages
from edgebench.records import WorkingSet
from edgebench.run.walk.control import working_set

MIB = 1 << 20
TOUCHED = TouchedPages(30 * MIB, 50 * MIB)


def span(number: int, after: int, peak: int) -> list[dict[str, Any]]:
    """A span's events: how much was used after it, and at its peak."""
    about = {"id": number, "name": "round", "phase": "round", "thread": 1}
    start = {**about, "event": "start", "t_ns": number, "usage_bytes": 0}
    end = {"usage_bytes": after * MIB, "peak_bytes": peak * MIB}
    return [start, {**about, **end, "event": "end", "t_ns": number + 1}]


def test_idle_pages_are_left_out_and_what_passes_counts():
    """Charged: 60 MiB of files, 55 of them mapped, of which 50 were touched."""
    charged = {"file": 60 * MIB, "mapped": 55 * MIB, "kernel": 2 * MIB}
    spans = [*span(1, 90, 120), *span(2, 100, 110)]
    found = working_set(TOUCHED, charged, spans, maps_weights=False)
    assert found == WorkingSet(30 * MIB, 50 * MIB, 2 * MIB, 20 * MIB, 5 * MIB)
    assert found.total_bytes == 102 * MIB


def test_files_that_others_are_charged_for_do_not_count():
    """More was touched than is charged: the libraries were read before."""
    charged = {"file": 10 * MIB, "mapped": 8 * MIB, "kernel": 0}
    found = working_set(TOUCHED, charged, span(1, 100, 90), maps_weights=False)
    assert found == WorkingSet(30 * MIB, 8 * MIB, 0, 0, 2 * MIB)


def test_without_spans_nothing_is_known():
    charged = {"file": 0, "mapped": 0, "kernel": 0}
    assert working_set(TOUCHED, charged, [], maps_weights=False) is None


def test_weights_that_were_mapped_count_although_the_round_has_unmapped_them():
    """8 MiB are still mapped, the libraries'; 90 more are charged: the weights."""
    charged = {"file": 98 * MIB, "mapped": 8 * MIB, "kernel": 0}
    found = working_set(TOUCHED, charged, span(1, 100, 100), maps_weights=True)
    assert found == WorkingSet(30 * MIB, 98 * MIB, 0, 0, 0)
