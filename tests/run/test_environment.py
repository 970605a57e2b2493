from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from edgebench import __version__
from edgebench.errors import UsageError
from edgebench.measures.machine.environment import capture, device_name
from edgebench.measures.machine.system_files import (
    SystemFiles,
    UnreadableError,
    swap_devices,
    temperatures,
    throttle_counts,
)

if TYPE_CHECKING:
    from tests.run.conftest import PlainMachine

NANO = "NVIDIA Jetson Nano Developer Kit\0"


@pytest.mark.process
def test_the_real_machine_is_captured_as_plain_data():
    captured = json.loads(json.dumps(capture()))
    assert captured["schema"] == 1
    assert captured["edgebench"] == __version__
    assert captured["ram_bytes"] > 2**28
    assert captured["cpu_cores_usable"] >= 1
    assert captured["libraries"]["pydantic"]
    empty = {key for key, value in captured.items() if value is None}
    assert empty == set(captured["missing"])


@pytest.mark.process
def test_an_empty_machine_gives_reasons_not_guesses(plain_machine: PlainMachine):
    captured = capture(machine=SystemFiles(plain_machine({})))
    assert captured["ram_bytes"] is None
    assert "/proc/meminfo" in captured["missing"]["ram_bytes"]
    assert captured["thp"] is None


@pytest.mark.process
def test_a_board_of_plain_files_is_read(plain_machine: PlainMachine):
    cpu = "sys/devices/system/cpu/cpu0"
    root = plain_machine(
        {
            "proc/device-tree/model": NANO,
            f"{cpu}/cpufreq/scaling_governor": "schedutil\n",
            f"{cpu}/cpufreq/cpuinfo_min_freq": "102000\n",
            f"{cpu}/cpufreq/cpuinfo_max_freq": "1479000\n",
            f"{cpu}/cpufreq/scaling_cur_freq": "921600\n",
            f"{cpu}/thermal_throttle/core_throttle_count": "3\n",
            "sys/class/thermal/thermal_zone0/type": "CPU-therm\n",
            "sys/class/thermal/thermal_zone0/temp": "41500\n",
            "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        }
    )
    captured = capture(machine=SystemFiles(root))
    assert captured["board"] == NANO.rstrip("\0")
    assert captured["governor"] == "schedutil"
    assert captured["frequency_hz"]["most"] == 1_479_000_000
    assert captured["temperatures_c"] == {"thermal_zone0:CPU-therm": 41.5}
    assert captured["throttle_counts"] == {"cpu0/core_throttle_count": 3}
    assert captured["thp"] == "madvise"


def test_a_raspberry_pi_counts_kinds_of_throttling(plain_machine: PlainMachine):
    """Of its word of flags only the upper half, which lasts since boot, is counted."""
    flags = "sys/devices/platform/soc/soc:firmware/get_throttled"
    root = plain_machine({flags: "50005\n"})
    assert throttle_counts(SystemFiles(root)) == {"get_throttled": 2}


def test_a_sleeping_sensor_does_not_hide_the_others(plain_machine: PlainMachine):
    """A zone without a temperature is passed over; with none left the reason is given."""
    root = plain_machine({"sys/class/thermal/thermal_zone0/type": "GPU\n"})
    with pytest.raises(UnreadableError, match="no zone"):
        temperatures(SystemFiles(root))
    root = plain_machine(
        {
            "sys/class/thermal/thermal_zone1/type": "AO\n",
            "sys/class/thermal/thermal_zone1/temp": "50000\n",
        }
    )
    assert temperatures(SystemFiles(root)) == {"thermal_zone1:AO": 50.0}


def test_swap_devices_say_their_kind(plain_machine: PlainMachine):
    root = plain_machine(
        {
            "proc/swaps": "Filename Type Size Used Priority\n"
            "/dev/zram0 partition 1024 512 100\n"
            "/no/such/swapfile file 2048 0 -2\n"
        }
    )
    zram, file = swap_devices(SystemFiles(root))
    assert (zram["kind"], zram["size_bytes"], zram["used_bytes"]) == ("zram", 2**20, 2**19)
    assert (file["kind"], file["read_ahead_kb"]) == ("file", None)


@pytest.mark.process
def test_only_variables_that_move_memory_are_kept(monkeypatch: pytest.MonkeyPatch):
    """MALLOC_ and thread counts are recorded; a password in the environment is not."""
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    monkeypatch.setenv("SOME_PASSWORD", "secret")
    variables = capture()["variables"]
    assert variables["MALLOC_ARENA_MAX"] == "1"
    assert "SOME_PASSWORD" not in variables


@pytest.mark.process
def test_git_state_is_of_edgebench_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    environment = sys.modules[capture.__module__]
    (tmp_path / "file").write_text("one")
    who = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "m"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.setattr(environment, "_CHECKOUT", tmp_path)
    assert capture()["git"]["changed"] is False
    (tmp_path / "file").write_text("two")
    git = capture()["git"]
    assert git["changed"] is True
    assert len(git["commit"]) == 40
    monkeypatch.setattr(environment, "_CHECKOUT", tmp_path / "none")
    monkeypatch.setitem(sys.modules, "edgebench._version", None)
    assert capture()["missing"]["git"] == "this copy of edgebench was built without git"


def test_the_device_is_named_by_board_and_host(
    plain_machine: PlainMachine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("EDGEBENCH_DEVICE", raising=False)
    monkeypatch.setattr("socket.gethostname", lambda: "../Lab_7")
    root = plain_machine({"proc/device-tree/model": NANO})
    assert device_name(SystemFiles(root)) == "lab-7-nvidia-jetson-nano-developer-kit"
    monkeypatch.setenv("EDGEBENCH_DEVICE", "My/../Jetson 2")
    assert device_name() == "my-jetson-2"
    monkeypatch.setenv("EDGEBENCH_DEVICE", "../..")
    with pytest.raises(UsageError, match="no name"):
        device_name()
