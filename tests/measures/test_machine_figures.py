"""What is read of the machine: an accelerator's memory, its own, speeds and temperatures."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgebench.measures.machine.noise import NoiseWatch, spread_doubts
from edgebench.measures.machine.system_files import (
    NVMAP,
    SYSTEM_FIGURES,
    NvmapMemory,
    NvmlMemory,
    SystemFiles,
    UnreadableError,
    process_memory,
    why_no_cuda,
)

MEMINFO = (
    "MemTotal:        4059060 kB\nMemFree:          700000 kB\nMemAvailable:    2059060 kB\n"
    "CmaTotal:          65536 kB\nCmaFree:           60000 kB\n"
)
CLIENTS = (
    "CLIENT                        PROCESS      PID        SIZE\n"
    "user                             Xorg     6480      33660K\n"
    "user                    python3 -m it     7001     123456K\n"
    "user                          python3     7001          4K\n"
    "total                                              157120K\n"
)


BUILT = "torch 2.0+cpu is built without it"


class FakeNvmlError(Exception):
    """As NVML's own."""


def fake_nvml(devices: list[list[tuple[int, int | None]]], fails: str | None = None) -> Any:
    """A module as ``pynvml``: of each device the processes (id, bytes); ``fails`` at reading."""

    def processes(device: int) -> list[Any]:
        if fails:
            raise FakeNvmlError(fails)
        return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in devices[device]]

    return SimpleNamespace(
        NVMLError=FakeNvmlError,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(devices),
        nvmlDeviceGetHandleByIndex=lambda number: number,
        nvmlDeviceGetComputeRunningProcesses=processes,
    )


def machine(folder: Path, **files: str) -> SystemFiles:
    for name, text in files.items():
        path = folder / {"meminfo": "proc/meminfo", "nvmap": NVMAP}[name]
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return SystemFiles(folder)


def test_nvml_tells_processes_of_all_cards():
    """Bytes of one process on two cards are added; what the driver keeps to itself is no 0."""
    memory = NvmlMemory(fake_nvml([[(7, 100), (8, None)], [(7, 11)]]))
    assert memory.read() == {7: 111}
    memory.close()
    memory.close()


def test_what_nvml_does_not_tell_has_a_reason():
    memory = NvmlMemory(fake_nvml([[]], fails="Not Supported"))
    with pytest.raises(UnreadableError, match="NVML: Not Supported"):
        memory.read()


def test_a_jetson_s_allocator_tells_clients(tmp_path: Path):
    jetson = machine(tmp_path, nvmap=CLIENTS, meminfo=MEMINFO)
    assert NvmapMemory(jetson).read() == {6480: 33660 << 10, 7001: 123460 << 10}
    assert process_memory(jetson).source == "nvmap"
    assert SYSTEM_FIGURES["nvmap"].read(jetson) == 157120 << 10


def test_the_whole_machine_tells_what_no_cgroup_has(tmp_path: Path):
    """RAM in use, and what is set aside for devices: 0 of that is no figure of 0."""
    board = machine(tmp_path, meminfo=MEMINFO)
    assert SYSTEM_FIGURES["ram"].read(board) == 2_000_000 << 10
    assert SYSTEM_FIGURES["cma"].read(board) == 5536 << 10
    with pytest.raises(UnreadableError, match="nvmap"):
        SYSTEM_FIGURES["nvmap"].read(board)
    text = MEMINFO.replace("CmaTotal:          65536", "CmaTotal:              0")
    with pytest.raises(UnreadableError, match="set aside"):
        SYSTEM_FIGURES["cma"].read(machine(tmp_path / "without", meminfo=text))


@pytest.mark.parametrize(
    ("line", "driver", "says"),
    [
        ("cuda: Optional[str] = None", "libc.so.6", f"this torch has no CUDA: {BUILT}"),
        ("cuda = None", "libc.so.6", f"this torch has no CUDA: {BUILT}"),
        ("cuda: Optional[str] = '12.6'", "libno-such-driver.so.1", "no CUDA driver is installed"),
        ("", "libno-such-driver.so.1", "no CUDA driver is installed"),
        # A library that has none of the driver's functions can't be asked.
        ("cuda = '12.6'", "libc.so.6", "no CUDA driver is installed"),
    ],
)
def test_torch_and_the_driver_are_asked_without_importing_it(
    line: str, driver: str, says: str, tmp_path: Path
):
    """Torch's own file says what it was built with; the driver's library whether it is there."""
    file = tmp_path / "version.py"
    file.write_text(f"__version__ = '2.0+cpu'\n{line}\n")
    why = why_no_cuda(file, driver=driver)
    assert why is not None
    assert says in why[0]
    assert why[1]


def test_speed_is_in_hertz_and_the_hottest_moment_is_kept(tmp_path: Path):
    """KHz and m°C in the kernel's files; the zone that is furthest above its own limit counts."""
    cpus, zones = "sys/devices/system/cpu", "sys/class/thermal/thermal_zone"
    files = {
        "proc/stat": "cpu  1 0 0 1 0 0 0 0\n",
        f"{cpus}/cpu0/cpufreq/scaling_cur_freq": "1500000",
    }
    for zone, limit in ((0, "85000"), (1, "60000")):
        about = {"type": "x", "trip_point_0_type": "passive", "trip_point_0_temp": limit}
        files |= {f"{zones}{zone}/{name}": text for name, text in about.items()}

    def show(cap: str, *temperatures: str) -> None:
        more = {f"{zones}{zone}/temp": each for zone, each in enumerate(temperatures)}
        more[f"{cpus}/cpufreq/policy0/scaling_max_freq"] = cap
        for name, text in (files | more).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)

    watch = NoiseWatch(tmp_path)
    show("1800000", "80000", "61000")
    watch.start()
    show("1200000", "88000", "69000")
    watch._throttling._look()
    show("1700000", "86000", "50000")
    noise = watch.stop(0.0)
    assert noise["frequency_before_hz"] == noise["frequency_after_hz"] == 1_500_000_000
    names = ("temperature_max_c", "hot_c", "trip_c", "cap_low_hz", "cap_high_hz")
    assert [noise[name] for name in names] == [88, 69, 60, 1_200_000_000, 1_800_000_000]


def test_a_repeat_far_from_the_mean_is_named():
    """Of 1, 1, 1 and 5 s the mean is 2: the longest is 1.5 of it away, the shortest half."""
    doubts = {doubt.kind: doubt.numbers for doubt in spread_doubts([1.0, 1.0, 1.0, 5.0])}
    assert doubts["long_repeat"] == {"repeat_s": 5.0, "away_share": 1.5, "mean_s": 2.0}
    assert doubts["short_repeat"]["away_share"] == 0.5
    assert doubts[next(iter(doubts))]["share"] == pytest.approx(1.0)
