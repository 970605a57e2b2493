"""A made-up workload, run in real trials: layers that hold so many MiB for 2 ms each.

Also a program: ``python made_layers.py SPEC``, what runs inside the limit.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import time
from pathlib import Path

from edgebench.measures.view import view_of
from edgebench.records import LimitSetting
from edgebench.results.frames import TrialReadings, read_trial
from edgebench.results.sweep_reader import Sweep
from edgebench.run.trial.launch import KINDS, Launch, Settings
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import TrialSetup
from edgebench.run.trial.trial import TrialFiles, run_trial
from edgebench.workloads.events import Descriptors
from edgebench.workloads.recorder import Recorder
from edgebench.workloads.worker import WORKLOADS
from tests.own_path import python_path

MIB = 1 << 20
KIND = "made-up layers"
SIZES_MIB = (1, 8, 64, 256)
_HELD_S = 0.002
_UNCHANGED_S = 1.0
#: Bytes of a page table's entry for each page that is held (x86-64, aarch64).
_ENTRY = 8


def launch(settings: Settings, descriptors: Descriptors) -> Launch:
    spec = {"settings": dict(settings), "descriptors": descriptors}
    return Launch((sys.executable, __file__, json.dumps(spec)), env={"PYTHONPATH": python_path()})


def made_trial(
    setup: TrialSetup, folder: Path, strategy: str | None = None, repeats: int = 1
) -> TrialReadings:
    KINDS[KIND] = launch
    # A worker has the descriptors of its cgroup; a command doesn't.
    WORKLOADS[KIND] = ""
    trial = strategy or "timed"
    kinds = {"samples": "npz", "events": "jsonl.gz", "readings": "json.gz"}
    for name in kinds:
        (folder / name).mkdir(parents=True, exist_ok=True)
    samples, events, reading = (folder / n / f"{trial}.{end}" for n, end in kinds.items())
    files = TrialFiles(samples, events, folder / "log", folder, reading)
    sizes = [size for size in SIZES_MIB for _ in range(repeats)]
    settings = {"kind": KIND, "sizes_mib": sizes}
    request = TrialRequest(trial, "p1", 0, 0, settings, LimitSetting(), 200, strategy=strategy)
    record = run_trial(setup, request, files)
    assert record.outcome == "ok", record.reason
    cores = {"cpu_cores_usable": len(os.sched_getaffinity(0)), "page_bytes": mmap.PAGESIZE}
    sweep = Sweep(folder, "here", [record], {}, cores, {}, "", None, False)
    return read_trial(sweep, record)


def page_tables(size_bytes: int) -> int:
    """What the kernel charges for the page tables of so much memory: a page for each 512 pages."""
    return -(-size_bytes // mmap.PAGESIZE * _ENTRY // mmap.PAGESIZE) * mmap.PAGESIZE


def errors(trial: TrialReadings, strategy: str) -> list[tuple[int, int | None]]:
    """Each layer's MiB, in order, and how far off the strategy's peak of it is; None: not seen.

    A cgroup is charged for page tables too; they are no error.
    """
    off: list[tuple[int, int | None]] = []
    for key, span in trial.spans.items():
        size_mib, seen = int(str(span.name)), trial.span_reading(strategy, key)
        held = size_mib * MIB + (0 if strategy == "process" else page_tables(size_mib * MIB))
        if seen is None or seen.peak_bytes is None or seen.before_bytes is None:
            off.append((size_mib, None))
        else:
            off.append((size_mib, seen.peak_bytes - seen.before_bytes - held))
    return off


def hold(size_bytes: int) -> None:
    """Have so much memory touched for 2 ms, then gone."""
    # Populated by the kernel itself: a loop over its pages would last far longer than 2 ms.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_POPULATE", 0x8000)
    held = mmap.mmap(-1, size_bytes, flags=flags)
    time.sleep(_HELD_S)
    held.close()


def usage_bytes(descriptor: int) -> int:
    return int(os.pread(descriptor, 30, 0))


def wait_until_given_back(descriptor: int, size_bytes: int) -> None:
    """The kernel frees the page tables of the layer before after a while.

    What it has charged ahead for its CPUs stays: then nothing changes any more.
    """
    used, since = usage_bytes(descriptor), time.monotonic()
    while used > size_bytes + MIB // 16 and time.monotonic() < since + _UNCHANGED_S:
        time.sleep(0.01)
        if (now := usage_bytes(descriptor)) != used:
            used, since = now, time.monotonic()


def main(words: list[str]) -> None:
    spec = json.loads(words[0])
    recorder = Recorder(spec["descriptors"], view_of(os.environ, spec["descriptors"]))
    usage = spec["descriptors"]["usage"]
    at_first = usage_bytes(usage)
    for layer, size_mib in enumerate(spec["settings"]["sizes_mib"]):
        wait_until_given_back(usage, at_first)
        about = {"round": 0, "network": "made-up", "layer": layer, "name": str(size_mib)}
        with recorder.span("execute", **about):
            hold(size_mib * MIB)


if __name__ == "__main__":
    main(sys.argv[1:])
