"""Heap profilers in trials of their own, with real programs."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgebench.measures.strategies import (
    Boundaries,
    HeapPoint,
    HeapProfile,
    HeapStrategy,
    Reading,
    StrategyOptions,
    TrialData,
    with_own_trial,
)
from edgebench.measures.strategies.heap_profilers import Massif, Memray, Tcmalloc
from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import open_session
from edgebench.run.trial.trial import TrialFiles, run_trial
from tests.own_path import python_path

MIB = 1 << 20

STRATEGIES = [with_own_trial()[name] for name in ("tcmalloc", "memray", "massif")]
AVAILABLE = {strategy.name: strategy.unavailable() for strategy in STRATEGIES}


def needs(name: str) -> pytest.MarkDecorator:
    why = AVAILABLE[name]
    return pytest.mark.skipif(why is not None, reason=why or "")


def profile(strategy: str, *command: str) -> tuple[TrialRecord, Reading]:
    """What that profiler's own trial of a program tells."""
    settings = {"kind": "command", "command": list(command)}
    request = TrialRequest("0000", "p", 0, 0, settings, LimitSetting(), 250, strategy=strategy)
    with open_session() as session:
        files = replace(TrialFiles.scratch(session.folder), reading=session.folder / "reading")
        record = run_trial(session.setup, request, files)
        kept = gzip.decompress((session.folder / "reading").read_bytes())
        return record, Reading.from_json(json.loads(kept))


#: Three layers of 1, 2 and 3 MiB that stay, then 8 MiB that go again; then it ends or is killed.
LAYERS = """
import mmap, os, sys
from pathlib import Path
from edgebench.measures.strategies.heap_profilers import MemrayView
from edgebench.workloads.recorder import NO_DESCRIPTORS, Recorder
folder = Path(sys.argv[1])
view = MemrayView(folder, NO_DESCRIPTORS)
with (folder / "events").open("wb", 0) as events:
    recorder = Recorder({**NO_DESCRIPTORS, "events": events.fileno()}, view)
    held = []
    for layer in range(3):
        with recorder.span("load", round=0, network="n", layer=layer, name=f"layer {layer}"):
            held.append(mmap.mmap(-1, (layer + 1) << 20))
    with recorder.span("first", round=0, network="n", layer=0, name="layer 0"):
        bytes(8 << 20)
    recorder.flush()
    if sys.argv[2:]:
        os.kill(os.getpid(), 9)
    view.close()
"""


@pytest.mark.process
@needs("memray")
@pytest.mark.parametrize("killed", [False, True])
def test_memray_tells_each_layer(tmp_path: Path, killed: bool) -> None:
    memray = Memray()
    words = [sys.executable, "-c", LAYERS, str(tmp_path), *(["kill"] if killed else [])]
    command, env = memray.wrap(words, {**os.environ, "PYTHONPATH": python_path()}, tmp_path)
    done = subprocess.run(command, env=env, check=False)
    assert done.returncode == (-9 if killed else 0)
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    reading = memray.read(TrialData(events, folder=tmp_path))
    spans = {span.id: span for span in reading.spans}
    assert reading.parts["parameters"] == pytest.approx(6 * MIB, abs=MIB / 4)
    loads = [spans[number] for number in sorted(spans)][:3]
    grown = [(one.after_bytes or 0) - (one.before_bytes or 0) for one in loads]
    assert [round(size / MIB) for size in grown] == [1, 2, 3]
    first = spans[max(spans)]
    assert (first.peak_bytes or 0) - (first.after_bytes or 0) >= 8 * MIB
    assert reading.peak_bytes


class Given(HeapStrategy):
    name = title = counts = blind_to = method = "given"
    counts_mapped = True

    def profile(self, folder: Path, numbered: Boundaries, offset_ns: int) -> HeapProfile:
        points = (HeapPoint(10, 0), HeapPoint(25, 10, peak_bytes=17), HeapPoint(45, 20))
        return HeapProfile(points, 0, "given")


@pytest.mark.parametrize(("thread", "parts"), [(0, {"parameters": 20}), (1, {})])
def test_overlapping_threads_have_no_growth_of_their_own(
    tmp_path: Path, thread: int, parts: dict[str, int]
) -> None:
    events = [
        event
        for layer, on in ((0, 0), (1, thread))
        for event in (
            {"event": "start", "id": layer, "phase": "load", "round": 0, "network": "n"}
            | {"layer": layer, "name": "l", "thread": on, "t_ns": 20 + 20 * layer},
            {"event": "end", "id": layer, "t_ns": 30 + 20 * layer},
        )
    ]
    reading = Given().read(TrialData(events, folder=tmp_path))
    assert [span.after_bytes for span in reading.spans] == [10, 20]
    assert reading.parts == parts


@pytest.mark.own_cgroup
@needs("tcmalloc")
def test_tcmalloc_counts_malloc_and_no_mappings_up_to_a_kill() -> None:
    """300 MiB that malloc gave, up to the last dump; not the 64 MiB mapped."""
    words = "import mmap, os; m = mmap.mmap(-1, 64 << 20); k = [bytes(1 << 20) for _ in range(300)]"
    code = f"{words}; os.kill(os.getpid(), 9)"
    record, reading = profile("tcmalloc", sys.executable, "-I", "-S", "-c", code)
    assert record.outcome == "failed"
    assert 256 * MIB <= (reading.peak_bytes or 0) <= 310 * MIB
    assert len(reading.line) >= 8


@pytest.mark.own_cgroup
@needs("massif")
def test_massif_tells_a_programs_heap() -> None:
    record, reading = profile("massif", "dd", "if=/dev/zero", "of=/dev/null", "bs=64M", "count=1")
    assert record.outcome == "ok", record.reason
    assert reading.peak_bytes == pytest.approx(64 * MIB, rel=0.05)
    assert reading.line[0][1] < 32 * MIB


def test_a_scenarios_settings_reach_the_profilers(tmp_path: Path) -> None:
    """Dumps as often as asked; massif ends before its trial would be killed."""
    asked = StrategyOptions(8 << 20, timeout_s=100.0)
    assert Tcmalloc().configured(asked).every_bytes == 8 << 20
    words, _ = Massif().configured(asked).wrap(["true"], {}, tmp_path)
    assert "90.0" in words[: words.index("valgrind")]


def test_a_profiler_that_is_missing_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    told = {strategy.name: strategy.unavailable() or "" for strategy in STRATEGIES}
    assert "apt-get install libgoogle-perftools4" in told["tcmalloc"]
    assert "apt-get install valgrind" in told["massif"]
    assert "[heap]" in told["memray"]
