"""Heap profilers in trials of their own, with real networks and real programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from heap_making import Profiled, profile_command, profile_network

from edgebench.measures.strategies import (
    Boundaries,
    HeapPoint,
    HeapProfile,
    HeapStrategy,
    SpanReading,
    StrategyOptions,
    TrialData,
    with_own_trial,
)
from edgebench.measures.strategies.heap_profilers import Memray
from tests.own_path import python_path

MIB = 1 << 20

STRATEGIES = [with_own_trial()[name] for name in ("tcmalloc", "memray", "massif")]
AVAILABLE = {strategy.name: strategy.unavailable() for strategy in STRATEGIES}


def needs(name: str) -> pytest.MarkDecorator:
    why = AVAILABLE[name]
    return pytest.mark.skipif(why is not None, reason=why or "")


def layers(profiled: Profiled, phase: str) -> list[SpanReading]:
    assert profiled.reading
    wanted = {s.id for s in profiled.spans if s.phase == phase and s.layer is not None}
    return [reading for reading in profiled.reading.spans if reading.id in wanted]


def parameters_hold(profiled: Profiled) -> None:
    """The heap grew over the loads by the parameters' bytes, within 1 %."""
    assert profiled.record.outcome == "ok", profiled.record.reason
    assert profiled.reading, profiled.record.missing
    known = profiled.manifest["parameter_bytes"]
    assert profiled.reading.parts["parameters"] == pytest.approx(known, rel=0.01)


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
@pytest.mark.torch
@pytest.mark.long
@needs("memray")
def test_memray_tells_a_network_s_parameters_layer_by_layer() -> None:
    """ResNet-18 loaded by copy: the heap's growth in each layer is that layer's own bytes."""
    resnet = profile_network("resnet18", "memray")
    parameters_hold(resnet)
    places = {span.id: span.layer for span in resnet.spans}
    for reading in layers(resnet, "load"):
        size = resnet.manifest["table"][places[reading.id] or 0]["file_bytes"]
        growth = (reading.after_bytes or 0) - (reading.before_bytes or 0)
        # Beside the weights: the objects that hold them, now and then an arena of Python's.
        assert size <= growth <= size + MIB + 8192
    # Executing a convolution takes workspace.
    convolutions = layers(resnet, "first")
    assert any((r.peak_bytes or 0) > (r.after_bytes or 0) + MIB for r in convolutions)


@pytest.mark.own_cgroup
@needs("tcmalloc")
def test_tcmalloc_counts_malloc_and_no_mappings() -> None:
    """200 MiB that malloc gave, with the calls that requested them; not the 64 MiB mapped."""
    words = "import mmap; m = mmap.mmap(-1, 64 << 20); kept = [bytes(1 << 20) for _ in range(200)]"
    profiled = profile_command([sys.executable, "-I", "-S", "-c", words], "tcmalloc")
    assert profiled.reading, profiled.record.missing
    assert profiled.reading.peak_bytes
    assert 168 << 20 <= profiled.reading.peak_bytes <= 210 << 20


@pytest.mark.own_cgroup
@needs("tcmalloc")
def test_the_dumps_before_a_kill_are_kept() -> None:
    words = "import os; kept = [bytes(1 << 20) for _ in range(300)]; os.kill(os.getpid(), 9)"
    profiled = profile_command([sys.executable, "-I", "-S", "-c", words], "tcmalloc")
    assert profiled.record.outcome == "failed"
    assert profiled.reading
    assert profiled.reading.peak_bytes
    assert 256 * MIB <= profiled.reading.peak_bytes <= 310 * MIB
    assert len(profiled.reading.line) >= 8


@pytest.mark.own_cgroup
@needs("massif")
def test_massif_tells_a_programs_heap() -> None:
    command = ["dd", "if=/dev/zero", "of=/dev/null", "bs=64M", "count=1"]
    profiled = profile_command(command, "massif", timeout_s=250.0)
    assert profiled.record.outcome == "ok", profiled.record.reason
    assert profiled.reading
    assert profiled.reading.peak_bytes == pytest.approx(64 * MIB, rel=0.05)
    assert profiled.reading.line[0][1] < 32 * MIB


@pytest.mark.process
def test_a_scenarios_settings_reach_the_profilers(tmp_path: Path) -> None:
    """Dumps as often as asked; massif ends before its trial would be killed."""
    tcmalloc, _, massif = (
        s.configured(StrategyOptions(8 << 20, timeout_s=100.0)) for s in STRATEGIES
    )
    _, env = tcmalloc.wrap(["true"], {}, tmp_path)
    assert env["HEAP_PROFILE_ALLOCATION_INTERVAL"] == str(8 << 20)
    words, _ = massif.wrap(["true"], {}, tmp_path)
    assert "90.0" in words[: words.index("valgrind")]


def test_a_profiler_that_is_missing_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    told = {strategy.name: strategy.unavailable() or "" for strategy in STRATEGIES}
    assert "apt-get install libgoogle-perftools4" in told["tcmalloc"]
    assert "apt-get install valgrind" in told["massif"]
    assert "[heap]" in told["memray"]
