"""Spans, their sums by phase, collections within rounds, and what a trial needs."""

from __future__ import annotations

from typing import Any

import pytest

from edgebench.need import Need, differs, need_of
from edgebench.records import WITH_PEAK, FilesReport, LimitSetting, PhaseSum, TrialRecord
from edgebench.spans import (
    Span,
    collections_s,
    events_to_phases,
    finished_spans,
    first_round_end_ns,
    unfinished_span,
)

MIB = 1 << 20
S = 10**9


def span(
    number: int, phase: str, from_s: float, to_s: float | None, layer: int | None = None, **of: Any
) -> list[dict[str, Any]]:
    """A span's start and, if it has one, its end; its faults and peak are in ``of``."""
    place = {"round": 0, "network": "net", "thread": 2, "name": None} | of
    used = {key: place.pop(key, None) for key in ("cpu_ns", "major_faults", "peak_bytes")}
    start = {"event": "start", "id": number, "phase": phase, "layer": layer, **place}
    start |= {"t_ns": round(from_s * S), "usage_bytes": 11, "swap_bytes": 13}
    end = {"event": "end", "id": number, "usage_bytes": 17, "swap_bytes": 19, "minor_faults": 23}
    return [start] if to_s is None else [start, {**end, **used, "t_ns": round(to_s * S)}]


def test_a_span_is_what_its_two_events_tell() -> None:
    used = {"cpu_ns": 1_250_000_000, "major_faults": 29, "peak_bytes": 31}
    (found,) = finished_spans(span(7, "load", 2.5, 4.0, 3, name="fc", **used))
    place = (7, "load", 0, "net", 3, "fc", 2, 2_500_000_000, 4_000_000_000)
    assert found == Span(*place, 1.25, 11, 17, 13, 19, 31, 29, 23)
    assert found.wall_s == 1.5
    # Without a round, a layer and what the kernel does not tell.
    (bare,) = finished_spans(span(1, "import", 1, 2, round=None))
    assert (bare.round, bare.cpu_s, bare.peak_bytes, bare.major_faults) == (-1, None, None, None)


def layer(number: int, n: int, from_s: float, to_s: float, **more: int) -> list[dict[str, Any]]:
    """A layer's execution, which uses 0.5 s of CPU time and has 2 major faults."""
    return span(number, "execute", from_s, to_s, n, **{"cpu_ns": S // 2, "major_faults": 2, **more})


def test_a_phase_is_the_sum_of_its_layers() -> None:
    """1 + 3 + 2 s; layers run once and twice; the peak is that of the whole phase; rounds apart."""
    whole = {"cpu_ns": 9 * S, "major_faults": 50, "peak_bytes": 90}
    events = [
        *layer(0, 0, 0, 1, peak_bytes=70),
        *layer(1, 1, 1, 4, peak_bytes=80),
        *layer(2, 1, 4, 6),
        *span(3, "execute", 0, 8, **whole),
        *span(4, "round", 0, 9, network=None, **whole),
        *span(5, "execute", 9, 9.5, 0, round=1),
    ]
    assert events_to_phases(events) == [
        PhaseSum(0, "net", "execute", 6.0, 1.5, 90, 6, 2),
        PhaseSum(0, None, "round", 9.0, 9.0, 90, 50, 1),
        PhaseSum(1, "net", "execute", 0.5),
    ]
    # What one of them does not tell is not known of the sum.
    unknown = [*layer(0, 0, 0, 1), *layer(1, 1, 1, 2, major_faults=None)]
    assert events_to_phases(unknown)[0].major_faults is None
    # Rounds that never ended are left out; what is outside rounds is not.
    cut = [*span(8, "init", 0, 1, round=None), *span(9, "round", 9, None, round=1), *unknown]
    cut += span(7, "load", 10, None, 4, round=1) + span(6, "load", 9, 10, 3, round=1)
    assert [(one.round, one.phase) for one in events_to_phases(cut)] == [
        (-1, "init"),
        (0, "execute"),
    ]
    # Two threads load at once: whichever ends first, an id's end is its start's.
    (first, second), (third, fourth) = (
        span(1, "load", 0, 1, 0),
        span(2, "load", 0, 3, 0, network="b"),
    )
    sums = {one.network: one.wall_s for one in events_to_phases([first, third, second, fourth])}
    assert sums == {"net": 1.0, "b": 3.0}
    innermost = unfinished_span(cut)
    assert innermost
    assert (innermost["id"], unfinished_span(events)) == (7, None)
    rounds = [*span(1, "round", 5, 9), *span(0, "round", 0, 4), *span(2, "load", 0, 1)]
    assert first_round_end_ns(rounds) == 4 * S
    assert first_round_end_ns(layer(0, 0, 0, 1)) is None


@pytest.mark.parametrize(
    ("from_s", "to_s", "counted_s"),
    [
        # Before the first round; across its start; between two phases; across two spans; after.
        *((0.1, 0.6, 0), (0.5, 1.25, 0.25), (2.25, 2.75, 0.5), (3.5, 8.5, 2.5), (7, 7.5, 0)),
        # In the second round, which began before the one that ended last.
        (6.25, 6.5, 0.25),
    ],
)
def test_a_collection_counts_within_a_round(from_s: float, to_s: float, counted_s: float) -> None:
    events = [
        *span(0, "import", 0, 1, round=None),
        *(span(1, "round", 1, 6) + span(2, "load", 1, 2) + span(3, "execute", 3, 5)),
        *(span(4, "round", 5.5, 6.75) + layer(5, 0, 6.9, 9)),
        {"event": "collection", "start_ns": round(from_s * S), "t_ns": round(to_s * S)},
    ]
    assert collections_s(events) == pytest.approx(counted_s)
    assert (collections_s([]), collections_s(events[:-1])) == (None, 0)
    assert collections_s([*events[:-1], {**events[-1], "start_ns": "x"}]) == 0


def trial(**values: Any) -> TrialRecord:
    known: dict[str, Any] = {"demand_bytes": 100 * MIB, "undroppable_bytes": 70 * MIB}
    known |= {"demand_source": f"sampled anon{WITH_PEAK}"} | values
    return TrialRecord("1", "p", 0, 0, {}, LimitSetting(), "ok", "", **known)


def test_a_need_is_the_demand_and_files_charged_elsewhere() -> None:
    assert need_of(trial()) == Need(100 * MIB, 70 * MIB)
    assert need_of(trial(demand_bytes=None)) is None
    files = FilesReport(elsewhere_bytes=30 * MIB, late_bytes=5 * MIB)
    assert need_of(trial(files=files)) == Need(130 * MIB, 70 * MIB, 30 * MIB)
    old = {"demand_source": "sampled anon", "peak_bytes": 200 * MIB}
    # 200 − 180, and 5 of them late; a twentieth of the peak is 10, of the samples 9.
    assert need_of(trial(**old, sampled_peak_bytes=180 * MIB)) == Need(120 * MIB, 90 * MIB)
    late = trial(**old, sampled_peak_bytes=180 * MIB, files=files)
    assert need_of(late) == Need((100 + 15 + 30) * MIB, 85 * MIB, 30 * MIB)
    few = trial(**old, sampled_peak_bytes=190 * MIB + 1)
    assert need_of(few) == Need(100 * MIB, 70 * MIB)
    assert need_of(trial(**old, sampled_peak_bytes=None)) == Need(100 * MIB, 70 * MIB)


@pytest.mark.parametrize(
    ("need", "files", "much"),
    [
        # A twentieth of the need, and 1 MiB at least.
        ((200, 150, 0), 50, False),
        ((200, 190, 10), 10, True),
        ((200, 191, 9), 0, False),
        ((10, 9, 1), 1, True),
        ((10, 9.5, 0.9), 0, False),
        ((10, None, 0), 0, False),
    ],
)
def test_files_are_told_apart_where_they_are_many(
    need: tuple[float, float | None, float], files: float, much: bool
) -> None:
    found = Need(*(None if size is None else size * MIB for size in need))
    assert (found.files_bytes, found.has_much_elsewhere) == (files * MIB, much)


@pytest.mark.parametrize(
    ("least", "most", "is_other"),
    [(20, 21, False), (20, 21.1, True), (100, 105, False), (100, 105.1, True), (4, 5.1, True)],
)
def test_needs_differ_beyond_a_twentieth_and_a_mebibyte(
    least: float, most: float, is_other: bool
) -> None:
    assert differs(least * MIB, most * MIB) is is_other
