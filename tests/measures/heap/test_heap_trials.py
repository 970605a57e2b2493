"""Heap profilers in trials of their own, with real networks and real programs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from heap_making import Profiled, profile_command, profile_network

from edgebench.measures.reading import SpanReading
from edgebench.measures.registry import with_own_trial
from edgebench.measures.strategies.massif import Massif
from edgebench.measures.strategy import StrategyOptions, TrialData

STRATEGIES = [with_own_trial()[name] for name in ("tcmalloc", "memray", "massif")]
AVAILABLE = {strategy.name: strategy.unavailable() for strategy in STRATEGIES}


def needs(name: str) -> pytest.MarkDecorator:
    """Skip where the profiler is not installed, with what to install."""
    why = AVAILABLE[name]
    return pytest.mark.skipif(why is not None, reason=why or "")


def layers(profiled: Profiled, phase: str) -> list[SpanReading]:
    """The readings of that phase's layers, in order."""
    assert profiled.reading
    wanted = {s.id for s in profiled.spans if s.phase == phase and s.layer is not None}
    return [reading for reading in profiled.reading.spans if reading.id in wanted]


def parameters_hold(profiled: Profiled) -> None:
    """The heap grew over the loads by the parameters' bytes, within 1 %; someone holds them."""
    assert profiled.record.outcome == "ok", profiled.record.reason
    assert profiled.reading, profiled.record.missing
    known = profiled.manifest["parameter_bytes"]
    assert profiled.reading.parts["parameters"] == pytest.approx(known, rel=0.01)
    last = layers(profiled, "load")[-1].id
    held = [holder for holder in profiled.reading.holders if holder.span == last]
    assert held[0].size_bytes == pytest.approx(known, rel=0.01)
    assert any("mmap" in frame for frame in held[0].frames), held[0].frames


@pytest.fixture(scope="module")
def resnet() -> Profiled:
    """ResNet-18 loaded by copy, under memray."""
    return profile_network("resnet18", "memray")


@pytest.mark.own_cgroup
@needs("memray")
def test_memray_tells_the_parameters_layer_by_layer(resnet: Profiled) -> None:
    """The heap's growth in each layer is that layer's own bytes."""
    parameters_hold(resnet)
    places = {span.id: span.layer for span in resnet.spans}
    for reading in layers(resnet, "load"):
        size = resnet.manifest["table"][places[reading.id] or 0]["file_bytes"]
        growth = (reading.after_bytes or 0) - (reading.before_bytes or 0)
        # Beside the weights: the objects that hold them, now and then an arena of Python's.
        assert size <= growth <= size + (1 << 20) + 8192


@pytest.mark.own_cgroup
@needs("memray")
def test_memray_sees_what_a_layer_gives_back(resnet: Profiled) -> None:
    """Executing a convolution takes workspace: its peak is above what it leaves behind."""
    convolutions = layers(resnet, "first")
    assert any((r.peak_bytes or 0) > (r.after_bytes or 0) + (1 << 20) for r in convolutions)
    for reading in resnet.reading.spans if resnet.reading else ():
        assert reading.peak_bytes is not None
        assert reading.peak_bytes >= max(reading.before_bytes or 0, reading.after_bytes or 0)


@pytest.mark.own_cgroup
@needs("memray")
def test_overlapping_threads_have_no_growth_of_their_own() -> None:
    """Layers that run at once are still read, but their growth is not added up to parameters."""
    profiled = profile_network("lenet", "memray", schedule="partial")
    assert profiled.reading
    assert layers(profiled, "load")
    assert profiled.reading.parts == {}


@pytest.mark.own_cgroup
@pytest.mark.timeout(1200)
@needs("tcmalloc")
def test_tcmalloc_counts_what_torch_allocates_but_no_mapped_weights() -> None:
    """AlexNet loaded by copy: the loads add nothing to the heap; stacks of malloc are named."""
    profiled = profile_network("alexnet", "tcmalloc")
    assert profiled.record.outcome == "ok", profiled.record.reason
    assert profiled.reading, profiled.record.missing
    assert profiled.reading.parts == {}
    for span in layers(profiled, "load"):
        # The largest is 151 MB; what malloc gives is the objects that hold it.
        assert abs((span.after_bytes or 0) - (span.before_bytes or 0)) < 4 << 20
    executions = {span.id for span in layers(profiled, "first")}
    held = [holder for holder in profiled.reading.holders if holder.span in executions]
    assert held
    frames = {frame for holder in held for frame in holder.frames}
    assert any("torch" in frame or "at::" in frame or "Py" in frame for frame in frames), frames


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
@pytest.mark.parametrize(
    ("command", "what"),
    [(["/sbin/ldconfig", "-p"], "linked statically"), (["sh", "-c", "kill -9 $$"], "before it")],
)
def test_a_preload_without_effect_is_explained(command: list[str], what: str) -> None:
    """No dumps: the record says why, and the trial itself is as good as ever."""
    if not Path(command[0]).is_file() and not shutil.which(command[0]):
        pytest.skip(f"no {command[0]} here")
    profiled = profile_command(command, "tcmalloc")
    assert profiled.reading is None
    assert what in profiled.record.missing["reading"]


@pytest.mark.own_cgroup
@needs("tcmalloc")
def test_a_program_with_its_own_malloc_is_explained(tmp_path: Path) -> None:
    """It links dynamically, so the preload works, but nothing is allocated through it."""
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler (apt-get install gcc)")
    source = tmp_path / "own.c"
    source.write_text(
        "static char heap[1 << 20]; static long used;\n"
        "void *malloc(unsigned long n) { used += n; return heap + used - n; }\n"
        "void free(void *p) { }\n"
        "void _exit(int);\n"
        "int main(void) { malloc(99); _exit(0); }\n"
    )
    flags = ["-w", "-fno-builtin", "-rdynamic"]
    subprocess.run(["cc", *flags, "-o", tmp_path / "own", source], check=True)
    profiled = profile_command([str(tmp_path / "own")], "tcmalloc")
    assert "brings its own allocator" in profiled.record.missing["reading"]


@pytest.mark.own_cgroup
@needs("tcmalloc")
def test_the_dumps_before_a_kill_are_kept() -> None:
    """A program killed at its time limit still told its heap up to then."""
    words = "import time; kept = [bytes(1 << 20) for _ in range(300)]; time.sleep(99)"
    command = [sys.executable, "-I", "-S", "-c", words]
    profiled = profile_command(command, "tcmalloc", timeout_s=12.0)
    assert profiled.record.outcome == "timeout"
    assert profiled.reading
    assert profiled.reading.peak_bytes
    assert 256 << 20 <= profiled.reading.peak_bytes <= 310 << 20
    assert len(profiled.reading.line) >= 8


@pytest.mark.own_cgroup
@needs("memray")
def test_memrays_record_up_to_a_kill_is_kept() -> None:
    """The worker is killed while it imports: what is recorded is read."""
    profiled = profile_network("alexnet", "memray", timeout_s=5.0)
    assert profiled.record.outcome == "timeout"
    assert profiled.reading
    assert profiled.reading.peak_bytes


@pytest.mark.own_cgroup
@needs("massif")
def test_massif_tells_a_programs_heap() -> None:
    """A known allocation in a real program, and when it was made."""
    words = "import time; time.sleep(1); kept = bytes(64 << 20)"
    profiled = profile_command([sys.executable, "-I", "-S", "-c", words], "massif")
    assert profiled.record.outcome == "ok", profiled.record.reason
    assert profiled.reading
    assert profiled.reading.peak_bytes == pytest.approx(64 << 20, rel=0.05)
    before = [size for _, size in profiled.reading.line if size < 32 << 20]
    assert before


@pytest.mark.process
@needs("massif")
def test_massif_ends_at_its_limit_and_keeps_what_it_saw(tmp_path: Path) -> None:
    """It is asked to end before it is killed, so its file is written; the reading says so."""
    massif = Massif(limit_s=8.0)
    # Starts faster than Python does there, and waits for input with its buffer allocated.
    command, env = massif.wrap(["dd", "bs=64M"], {}, tmp_path)
    with subprocess.Popen(command, env=env or None, stdin=subprocess.PIPE) as waiting:
        assert waiting.wait() == 124
    reading = massif.read(TrialData(events=[], folder=tmp_path))
    assert reading.peak_bytes == pytest.approx(64 << 20, rel=0.05)
    assert any("stopped at its limit of 8" in note for note in reading.missing.values())


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
    """Each says what to type."""
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    told = {strategy.name: strategy.unavailable() or "" for strategy in STRATEGIES}
    assert "apt-get install libgoogle-perftools4" in told["tcmalloc"]
    assert "apt-get install valgrind" in told["massif"]
    assert "edgebench[heap]" in told["memray"]
