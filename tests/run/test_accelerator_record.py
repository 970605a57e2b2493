"""What a record says of an accelerator, from events and readings that a test made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgebench.cgroups.interface import Counters
from edgebench.measures.machine.system_files import ProcessMemory, SystemFiles, UnreadableError
from edgebench.records import AcceleratorReport
from edgebench.run.trial.readers import (
    AcceleratorReader,
    AcceleratorReadings,
    Finished,
    accelerator_report,
)

TOTAL = {
    "to_bytes": 10,
    "to_s": 0.5,
    "from_bytes": 4,
    "from_s": 0.0,
    "peak_allocated_bytes": 100,
    "peak_reserved_bytes": 200,
    "allocated_bytes": 1,
    "reserved_bytes": 2,
    "retries": 0,
    "ooms": 0,
}
IDENTITY = {"name": "cuda", "title": "a GPU", "total_bytes": 1 << 30, "limit_bytes": None}


def event(**data: Any) -> dict[str, Any]:
    return {"event": "accelerator", "t_ns": 1, **data}


class Memory:
    source = "made up"

    def __init__(self, *readings: dict[int, int] | Exception) -> None:
        self._readings = list(readings)
        self.closed = False

    def read(self) -> dict[int, int]:
        told = self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]
        if isinstance(told, Exception):
            raise told
        return told

    def close(self) -> None:
        self.closed = True


def watched(memory: ProcessMemory | Exception, folder: Path, pids: tuple[int, ...] = (7,)) -> Any:
    def opened(_: SystemFiles) -> ProcessMemory:
        if isinstance(memory, Exception):
            raise memory
        return memory

    reader = AcceleratorReader(lambda: pids, SystemFiles(folder), opened)
    reader.start()
    for _ in range(5):
        assert reader.poll() > 0
    readings = reader.stop(Finished(Counters(), None))
    reader.close()
    return readings


def test_a_record_has_what_was_told():
    phases = [{"phase": "forward", "round": 0, "network": "lenet", "to_bytes": 0}]
    events = [event(identity=IDENTITY), event(phases=phases, total={**TOTAL, "to_bytes": 1})]
    events += [event(phases=phases, total=TOTAL)]
    seen = AcceleratorReadings(process_peak_bytes=300, process_readings=5)
    told = accelerator_report("cuda", events, seen)
    assert (told.name, told.title, told.total_bytes) == ("cuda", "a GPU", 1 << 30)
    assert (told.to_bytes, told.peak_allocated_bytes, told.process_peak_bytes) == (10, 100, 300)
    assert told.phases == phases * 2
    assert read_back(told) == told


def read_back(report: AcceleratorReport) -> AcceleratorReport:
    return msgspec.json.decode(msgspec.json.encode(report), type=AcceleratorReport)


def test_what_a_worker_says_wrongly_is_left_out():
    """Its words are data: a wrong type would make the whole record unreadable."""
    wrong = {"to_bytes": "many", "peak_allocated_bytes": 1.5, "ooms": True, "to_s": None, "odd": 1}
    events = [event(identity={"title": 5}), event(total=wrong, phases=[3, "x"]), event(phases=4)]
    told = accelerator_report("cuda", events, AcceleratorReadings())
    assert (told.title, told.to_bytes, told.ooms, told.phases) == (None, None, None, [])
    assert "peak_allocated_bytes" in told.missing
    assert read_back(told) == told


def test_the_peak_is_of_the_trial_s_processes(tmp_path: Path):
    memory = Memory({7: 10, 8: 5, 99: 1000}, {7: 30, 8: 1}, {7: 2})
    seen = watched(memory, tmp_path, pids=(7, 8))
    assert seen.process_peak_bytes == 31
    assert seen.process_readings >= 3
    assert memory.closed


@pytest.mark.parametrize(
    ("memory", "says"),
    [
        (Memory({99: 1}), "made up lists none of the trial's processes"),
        (UnreadableError("no NVML"), "no NVML"),
    ],
)
def test_no_peak_has_a_reason(memory: Any, says: str, tmp_path: Path):
    seen = watched(memory, tmp_path)
    assert seen.process_peak_bytes is None
    assert says in seen.missing["process_peak_bytes"]


def test_a_driver_that_fails_is_not_asked_again(tmp_path: Path):
    memory = Memory({7: 10}, UnreadableError("the GPU is lost"))
    seen = watched(memory, tmp_path)
    assert seen.process_peak_bytes == 10
    assert seen.missing["process_peak_bytes"] == "the GPU is lost"
    assert memory.closed


def test_the_machine_s_own_figures_stand_beside_it(tmp_path: Path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1000 kB\nMemAvailable: 400 kB\n")
    seen = watched(Memory({7: 1}), tmp_path)
    assert seen.system["ram"]["before_bytes"] == seen.system["ram"]["peak_bytes"] == 600 << 10
    assert set(seen.missing) == {"cma", "nvmap"}
