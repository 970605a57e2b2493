"""What trials of a program do not tell: facts from records, and what is said of them."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from edgebench.records import GrowthReport, LimitSetting, OutsideReport, TrialRecord
from edgebench.results.unmeasured import Unmeasured, unmeasured
from edgebench.units import MIB
from edgebench.words.unmeasured import growth_words, unmeasured_parts


def trial(
    *command: str,
    growth: GrowthReport | None = None,
    ends: dict[str, Any] | None = None,
    **seen: Any,
) -> TrialRecord:
    """A trial of a second that waited for most of it, and held little itself."""
    made = {"outcome": "ok", "exit_code": 0, "wall_s": 1.0, "cpu_s": 0.1, **(ends or {})}
    return TrialRecord(
        *("0001", "p001", 0, 0, {"kind": "command", "command": list(command)}, LimitSetting()),
        started_utc="",
        demand_bytes=MIB // 2,
        outside=OutsideReport(**seen),
        growth=growth,
        **made,
    )


def said(*records: TrialRecord) -> str:
    """All that is said of them."""
    return "; ".join(unmeasured_parts(unmeasured(records)))


def test_a_process_that_outlives_the_command():
    """Its memory is in no answer: it is named, with what measures it."""
    assert said(trial("sh", "spawn.sh", processes=1, names=["python3"])) == (
        "1 process outlived the command (python3) and had to be ended: what follows is not in the "
        "answer, --for 20s measures it too"
    )
    many = said(trial("sh", processes=3, names=["redis-server", "sh"]))
    assert many.startswith("3 processes outlived the command (redis-server and sh) and had to be")


def test_shared_memory_that_stays_is_counted():
    """How much; less than 1 MiB is nothing."""
    left = [trial("sh", left_bytes=size) for size in (2 * MIB, 200 * MIB)]
    assert said(*left) == (
        "200 MiB of shared memory stay when it has ended (`ls -l /dev/shm`, `ipcs -m`)"
    )
    assert said(trial("sh", left_bytes=4096)) == ""


def test_a_command_that_does_next_to_nothing_gets_a_hint():
    """In each trial, for longer than a start; a program that works, or holds more, gets none."""
    idle = trial("docker", "run", "x", ends={"wall_s": 2.5})
    assert said(idle).startswith("it does next to nothing: does it start work elsewhere?")
    for ends in ({"wall_s": 1.9}, {"cpu_s": 0.2}):
        assert said(idle, trial("sh", ends={"wall_s": 2.5, **ends})) == ""
    assert said(structs.replace(idle, demand_bytes=6 * MIB)) == ""
    assert said(structs.replace(idle, demand_bytes=None)) == ""


GROWS = GrowthReport(True, MIB, 500 * MIB, None, 60.0)


def test_a_program_that_is_stopped_while_it_grows_has_no_need():
    """By --for: its pace, and when a limit is reached."""
    record = trial("server", growth=GROWS, ends={"exit_code": None})
    assert unmeasured([record]).growth == GROWS
    assert growth_words(GROWS, 1100 * MIB) == (
        "still growing by 60 MiB/min after 1 min 00 s: no need can be told; 1.07 GiB is "
        "reached after about 11 minutes"
    )


def test_records_of_networks_leave_nothing_open():
    """They have no such report."""
    plain = TrialRecord(
        *("0001", "p001", 0, 0, {"kind": "inference"}, LimitSetting(), "ok"), started_utc=""
    )
    assert unmeasured([plain]) == Unmeasured()
    assert said(plain) == ""
