"""From events to each phase's sum, also when the worker was killed or wrote nonsense."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from results_making import MIB, EventLog, inference_events, killed_events

from edgebench.records import PhaseSum
from edgebench.spans import (
    events_to_phases,
    finished_spans,
    first_round_end_ns,
    unfinished_span,
)


def phase_of(events: list[dict[str, Any]], phase: str, number: int = 0) -> PhaseSum:
    """The one sum of that phase and round."""
    (found,) = [p for p in events_to_phases(events) if (p.phase, p.round) == (phase, number)]
    return found


def test_layers_are_summed_and_whole_phases_are_not():
    """A phase is its layers' sum; the span round a whole pass doesn't count twice."""
    events = inference_events(warm=3)
    assert phase_of(events, "load").wall_s == pytest.approx(0.2)
    warm = phase_of(events, "execute")
    assert warm.wall_s == pytest.approx(3 * 2 * 0.05)
    assert warm.passes == 3
    assert phase_of(events, "load").passes == 1
    assert warm.major_faults == 3 * 2 * 2


def test_phases_outside_rounds_have_no_round():
    """Import and init are their own spans, in round -1."""
    events = inference_events()
    assert phase_of(events, "import", -1).wall_s == pytest.approx(1.0)
    assert phase_of(events, "init", -1).network is None
    assert phase_of(events, "round", 1).wall_s == pytest.approx(0.6)


def test_the_peak_is_the_largest_of_layers_and_of_what_lies_between():
    """A peak between two layers is seen in the whole pass's span."""
    log = EventLog()
    glue = log.start("first", round=0, network="a")
    log.end(log.start("first", round=0, network="a", layer=0), 1, peak_bytes=3 * MIB)
    log.end(glue, 1, peak_bytes=8 * MIB)
    assert phase_of(log.events, "first").peak_bytes == 8 * MIB
    assert phase_of(log.events, "first").wall_s == pytest.approx(1)


def test_a_killed_round_has_no_sums_and_names_where_it_stood():
    """Part of a sum must not pass for a sum; what came before the round stays."""
    events = killed_events()
    assert [p.phase for p in events_to_phases(events)] == ["import"]
    stood = unfinished_span(events)
    assert stood is not None
    assert (stood["phase"], stood["name"]) == ("load", "fc")
    assert unfinished_span(inference_events()) is None


def test_rounds_before_the_killed_one_stay():
    """A kill in the second round leaves the first round's sums."""
    log = EventLog()
    log.whole("round", 1.0, round=0)
    log.start("round", round=1)
    log.whole("load", 0.1, round=1, network="a", layer=0)
    assert [(p.phase, p.round) for p in events_to_phases(log.events)] == [("round", 0)]


def test_the_first_round_ends_before_the_second():
    """A program loads its network once, so its need is looked for until then."""
    rounds = [one.end_ns for one in finished_spans(inference_events()) if one.phase == "round"]
    assert first_round_end_ns(inference_events()) == min(rounds) < max(rounds)
    assert first_round_end_ns(killed_events()) is None


def test_spans_that_overlap_in_two_threads_are_told_apart():
    """Ids pair starts with ends, whatever ends first."""
    log = EventLog()
    one = log.start("load", round=0, network="a", layer=0, thread=0)
    two = log.start("load", round=0, network="b", layer=0, thread=1)
    log.end(one, 1.0)
    log.end(two, 2.0)
    sums = {p.network: p.wall_s for p in events_to_phases(log.events)}
    assert sums == {"a": pytest.approx(1.0), "b": pytest.approx(3.0)}


def test_what_the_kernel_did_not_tell_stays_unknown():
    """One unknown value makes a sum unknown; it is never counted as 0."""
    log = EventLog()
    about = {"round": 0, "network": "a"}
    log.end(log.start("load", layer=0, **about), 1.0)
    nothing = {"peak_bytes": None, "cpu_ns": None, "major_faults": None}
    log.end(log.start("load", layer=1, **about), 1.0, **nothing)
    found = phase_of(log.events, "load")
    assert found.cpu_s is None
    assert found.major_faults is None
    assert found.peak_bytes == 9 * MIB


JSON = st.sampled_from([None, True, "a", 10**30, -1, 0.5, [1], {"a": 1}])
EVENT = st.fixed_dictionaries(
    {"event": st.sampled_from(["start", "end", "note"])},
    optional={
        key: JSON | st.integers(0, 3)
        for key in ("id", "t_ns", "phase", "round", "network", "layer", "peak_bytes", "cpu_ns")
    },
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(EVENT, max_size=12))
def test_nonsense_is_left_out_and_never_raises(events: list[dict[str, Any]]):
    """Whatever a broken worker writes, sums are made of whole spans only."""
    spans = finished_spans(events)
    assert all(isinstance(span.phase, str) for span in spans)
    assert len(events_to_phases(events)) <= len(spans)
    unfinished_span(events)
