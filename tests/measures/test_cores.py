"""CPU time by phase and core, from a worker's events."""

from __future__ import annotations

from typing import Any

import pytest

from edgebench.errors import ResultsError
from edgebench.measures.strategies.cores import Cores
from edgebench.measures.strategy import TrialData


def span(
    number: int,
    phase: str,
    round_: int,
    ms: tuple[int, int],
    layer: int | None = None,
    **cores: Any,
) -> list[Any]:
    """A span's two events; each of ``cores`` is its milliseconds so far, before and after."""
    before = {f"core_ns_{name[1:]}": at[0] * 10**6 for name, at in cores.items()}
    after = {f"core_ns_{name[1:]}": at[1] * 10**6 for name, at in cores.items()}
    before["looked_ns"], after["looked_ns"] = ((at + 1000) * 10**6 for at in ms)
    told = {"id": number, "layer": layer}
    start = {**told, "event": "start", "phase": phase, "round": round_, "view": before}
    end = {**told, "event": "end", "cpu_ns": 7 * 10**6, "view": after}
    return [{**start, "t_ns": ms[0] * 10**6}, {**end, "t_ns": ms[1] * 10**6}]


def test_each_phase_has_its_time_on_each_core() -> None:
    """Rounds after the first are added up; the first warms everything up."""
    events = [
        *span(1, "forward", 0, (0, 90), c0=(0, 90)),
        *span(2, "forward", 1, (100, 110), c0=(90, 98), c1=(0, 4)),
        *span(3, "forward", 2, (120, 130), c0=(98, 104), c1=(4, 10)),
        *span(4, "backward", 2, (130, 150), c0=(104, 106), c1=(10, 29)),
    ]
    parts = Cores().read(TrialData(events)).parts
    assert parts == {
        "forward|wall_ns": 20 * 10**6,
        "forward|looked_ns": 20 * 10**6,
        "forward|cpu_ns": 14 * 10**6,
        "forward|core_ns_0": 14 * 10**6,
        "forward|core_ns_1": 10 * 10**6,
        "backward|wall_ns": 20 * 10**6,
        "backward|looked_ns": 20 * 10**6,
        "backward|cpu_ns": 7 * 10**6,
        "backward|core_ns_0": 2 * 10**6,
        "backward|core_ns_1": 19 * 10**6,
    }


def test_a_single_round_counts() -> None:
    """Or there would be nothing."""
    events = span(1, "forward", 0, (0, 10), c0=(0, 9))
    assert Cores().read(TrialData(events)).parts["forward|core_ns_0"] == 9 * 10**6


def test_layers_count_where_there_are_any() -> None:
    """The whole phase around them would count twice."""
    events = [
        *span(1, "load", 0, (0, 5), layer=0, c0=(0, 4)),
        *span(2, "load", 0, (5, 9), layer=1, c0=(4, 5)),
        *span(3, "load", 0, (0, 10), c0=(0, 5)),
    ]
    parts = Cores().read(TrialData(events)).parts
    assert (parts["load|wall_ns"], parts["load|core_ns_0"]) == (9 * 10**6, 5 * 10**6)


def test_nothing_seen_is_said() -> None:
    """A worker that died in its first step."""
    with pytest.raises(ResultsError, match="no round was seen whole"):
        Cores().read(TrialData([]))
