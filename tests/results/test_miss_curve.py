"""Miss curves of made records: points, plateau and knee; why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from made_records import MIB, counts, record

from edgebench.need import equal_bytes, find_knee
from edgebench.records import Direction, LimitSetting, RoundCounts, TrialRecord, WalkReport
from edgebench.results.miss_curve import MissCurve, record_curves


def visit(
    limit_mib: int | None,
    reads: Sequence[int | None],
    direction: Direction | None = "down",
    **changes: Any,
) -> TrialRecord:
    held = {"storage": changes.pop("storage", "as-is"), "swap_kind": changes.pop("swap", "file")}
    limit = None if limit_mib is None else limit_mib * MIB
    about: dict[str, Any] = {
        "limits": LimitSetting("x", limit, **held),
        "direction": None if limit is None else direction,
        "walk": WalkReport("0001", 0 if limit is None else 1),
        "round_counts": counts(*reads, major_faults=7),
    }
    return record(limit_mib, *[0.2] * len(reads), **{**about, **changes})


def curve_of(*records: TrialRecord) -> MissCurve:
    (curve,) = record_curves(records)
    return curve


def walk_of(reads: Mapping[int, int]) -> list[TrialRecord]:
    return [visit(None, [0, 0, 0]), *(visit(at, [9, read, read]) for at, read in reads.items())]


def test_the_knee_is_where_bytes_pass_half_of_the_plateau() -> None:
    curve = curve_of(*walk_of({300: 0, 240: 50, 236: 150, 150: 200, 100: 200}))
    assert (curve.plateau_bytes, curve.missing) == (200 * MIB, None)
    assert curve.knee_between == (236 * MIB, 240 * MIB)
    assert curve.knee_bytes == pytest.approx((236 * 240) ** 0.5 * MIB)
    assert [point.limit_bytes // MIB for point in curve.points] == [300, 240, 236, 150, 100]


@pytest.mark.parametrize(
    ("reads", "plateau", "between", "knee"),
    [
        # (190 - 100) / (190 - 40) = 0.6 of the way from 200 to 250: 200 * 1.25 ** 0.6.
        ({250: [40], 200: [190], 150: [200], 100: [200]}, 200, (200, 250), 228.65),
        # The plateau is 240, the median of 240, 260 and 200: 7 / 15 of the way.
        ({250: [40], 200: [190], 150: [200], 120: [260], 100: [240]}, 240, (200, 250), 221.95),
        # Of three visits the median counts: 40; the widest that reads again and the tightest that
        # doesn't are beside the knee.
        (
            {300: [0], 250: [60, 40, 20], 200: [190], 180: [195], 150: [200], 100: [200]},
            197,
            (200, 250),
            229.08,
        ),
    ],
)
def test_the_knee_lies_unequally_far_from_both_limits(
    reads: dict[int, list[int]], plateau: int, between: tuple[int, int], knee: float
) -> None:
    found = find_knee({at * MIB: [one * MIB for one in each] for at, each in reads.items()})
    assert found.plateau_bytes // MIB == plateau
    assert found.between == (between[0] * MIB, between[1] * MIB)
    assert found.knee_bytes == pytest.approx(knee * MIB, rel=1e-4)


def test_a_point_has_the_bytes_beyond_free_reading_and_each_visits() -> None:
    """Three visits, none of them the median's neighbours; 60 MiB are read without a limit."""
    free = [visit(None, [70, 60, 60, 61]), visit(None, [90, 58, 57])]
    rounds = {"round_counts": [RoundCounts(n, r * MIB, out_bytes=(9 - n) * MIB, major_faults=n)
                               for n, r in enumerate((99, 90, 95, 92))]}  # fmt: skip
    limited = [
        visit(100, [99, 80, 80]),
        visit(100, [99, 90, 95, 92], **rounds),
        visit(100, [99, 200, 201]),
        visit(100, [99, 300, 300], outcome="oom-killed"),
        visit(80, [99, 300, 300], outcome="oom-killed"),
        visit(120, [99, 60, 62]),
    ]
    curve = curve_of(*free, *limited)
    # The median of 60, 60, 61, 58 and 57.
    assert curve.unlimited_bytes == 60 * MIB
    wide, point = curve.points
    assert (wide.limit_bytes, wide.round_bytes, wide.spread_bytes) == (120 * MIB, MIB, 2 * MIB)
    assert [size / MIB for size in point.visit_bytes] == [20, 32, 140.5]
    assert point.round_bytes == 32 * MIB
    assert (point.spread_bytes / MIB, point.rounds, point.visits) == (120.5, 7, 3)
    # Rounds 1 to 3 of one visit alone were counted so: 8, 7 and 6 MiB, and 1 to 3 faults.
    assert (point.out_bytes, point.faults) == (7 * MIB, 7)
    assert (wide.confirmed, point.confirmed) == (False, False)


def test_two_equal_rounds_confirm_a_point() -> None:
    assert curve_of(visit(100, [9, 200, 201])).points[0].confirmed
    assert not curve_of(visit(100, [9, 200, 240])).points[0].confirmed
    assert not curve_of(visit(100, [9, 200])).points[0].confirmed
    assert curve_of(visit(100, [9, 200]), visit(100, [3, 200])).points[0].confirmed
    assert not equal_bytes(200 * MIB, 203 * MIB)


def test_directions_are_never_mixed() -> None:
    down = walk_of({300: 0, 240: 0, 150: 200, 100: 200})
    up = visit(240, [200, 200, 200], "up")
    fresh = visit(240, [99, 100, 100], None)
    curve = curve_of(*down, up, fresh)
    assert curve.direction == "down"
    assert curve.knee_between == (150 * MIB, 240 * MIB)
    assert [point.round_bytes // MIB for point in curve.of("up")] == [200]
    assert [point.round_bytes // MIB for point in curve.of(None)] == [100]


def test_rounds_before_the_last_that_read_alike_are_of_another_state() -> None:
    (point,) = curve_of(visit(290, [628, 537, 519, 234, 233])).points
    assert (point.round_bytes, point.rounds, point.spread_bytes) == (int(233.5 * MIB), 2, MIB)


FIRST = {300: 0, 282: 120, 240: 0, 188: 200, 150: 200}


def test_no_knee_is_named_where_visits_disagree() -> None:
    curve = curve_of(*walk_of(FIRST))
    assert (curve.missing, curve.knee_bytes) == ("disagree", None)
    assert curve.knee_between == (188 * MIB, 300 * MIB)
    assert [point.limit_bytes // MIB for point in curve.points if not point.agree] == [282, 240]
    assert [point.round_bytes // MIB for point in curve.known] == [0, 200, 200]
    once_more = curve_of(*walk_of(FIRST), visit(282, [9, 0, 0]))
    assert once_more.knee_between == (188 * MIB, 240 * MIB)
    assert [point.visit_bytes for point in once_more.points if not point.agree] == [(120 * MIB, 0)]


def test_most_visits_decide_on_which_side_of_the_knee_a_limit_is() -> None:
    """Also where another process made them, after a kill: 282 MiB is above the knee."""
    again = [visit(282, [9, 0, 0], walk=WalkReport("0002", 1)) for _ in range(2)]
    killed = visit(150, [9], outcome="oom-killed")
    curve = curve_of(*walk_of(FIRST), killed, *again)
    assert curve.missing is None
    assert curve.knee_between == (188 * MIB, 240 * MIB)
    assert all(point.agree for point in curve.points)


def test_where_only_the_knee_itself_is_in_doubt_it_is_named() -> None:
    """Limits at which visits disagree lie within 3 % of the limit."""
    both = (visit(243, [9, 0, 0]), visit(243, [9, 200, 200]))
    curve = curve_of(*walk_of({300: 0, 245: 0, 240: 190, 150: 200, 100: 200}), *both)
    assert (curve.missing, curve.knee_between) == (None, (240 * MIB, 245 * MIB))


def test_the_way_up_disagrees_by_itself() -> None:
    up = [visit(240, [read, read, read], "up") for read in (200, 0)]
    curve = curve_of(*walk_of({300: 0, 240: 0, 150: 200, 100: 200}), *up)
    assert curve.missing is None
    assert [point.agree for point in curve.of("up")] == [False]
    assert all(point.agree for point in curve.of("down"))


def test_a_start_is_no_steady_round() -> None:
    curve = curve_of(visit(100, [50], None))
    assert (curve.points, curve.missing) == ((), "no_rounds")


def test_storage_has_no_part_in_a_curve() -> None:
    slow = visit(100, [0, 5, 5], storage="read=50MB/s")
    assert len(record_curves([slow, visit(100, [0, 5, 5], swap="zram")])) == 1
    assert len(record_curves([slow, visit(100, [0, 5, 5], swap="none")])) == 2


@pytest.mark.parametrize(
    ("added", "killed", "why"),
    [
        ({}, None, "no_limits"),
        ({}, 50, "killed"),
        ({300: 0, 200: 0}, None, "never_read"),
        ({300: 0, 200: 0}, 150, "killed"),
        ({300: 0, 200: 50, 100: 200}, None, "rising"),
        ({300: 0, 200: 50, 100: 200}, 90, "killed"),
        ({100: 200}, None, "rising"),
        ({200: 200, 100: 200}, None, "wider"),
        ({300: 200, 200: 0, 150: 200, 100: 200}, None, "wider"),
    ],
)
def test_where_there_is_no_knee_the_kind_of_reason_is_told(
    added: dict[int, int], killed: int | None, why: str
) -> None:
    bytes_at = {limit * MIB: [read * MIB] for limit, read in added.items()}
    found = find_knee(bytes_at, None if killed is None else killed * MIB)
    assert (found.missing, found.knee_bytes, found.between) == (why, None, None)


def test_records_without_rounds_or_counts_have_no_curve() -> None:
    assert record_curves([visit(None, [0, 0, 0])]) == []
    assert curve_of(visit(100, [], phases=[])).missing == "no_rounds"
    assert curve_of(visit(100, [None, None, None])).points == ()
    assert curve_of(visit(100, [9, 9, 9], round_counts=[])).missing == "no_counts"
    killed = visit(100, [9, 9, 9], outcome="oom-killed")
    assert curve_of(visit(None, [0, 0, 0]), killed).missing == "killed"
