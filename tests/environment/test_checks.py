from __future__ import annotations

import importlib.util
import shutil
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from edgebench.checks import Answer, is_fit
from edgebench.checks.machine import ForeignLoad, FreePages, Governor, GpuMemory, HugePages, Ram
from edgebench.checks.tools import Disk, GnuTime, LimitBites, Surveyed, Swap, Torch
from edgebench.machine.machine import Machine

if TYPE_CHECKING:
    from tests.environment.conftest import PlainMachine

Usage = namedtuple("Usage", ["total", "used", "free"])


@dataclass
class Finding:
    """A survey's finding, as `edgebench.cgroups.place` makes them."""

    name: str
    ok: bool | None
    says: str
    remedy: str | None = None


def test_gnu_time_is_found_here():
    """What set-up installed is seen, with its place."""
    assert GnuTime().answer().says.startswith("/")


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="torch is not installed")
def test_torch_is_found_here():
    """What set-up installed is seen."""
    assert Torch().answer().status == "ok"


def test_a_machine_without_gnu_time_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Without GNU time the row fails and says what to type."""
    from edgebench.errors import MachineError

    def missing() -> Path:
        raise MachineError("no GNU time here", remedy="apt-get install time")

    monkeypatch.setattr("edgebench.measures.gnu_time.find_gnu_time", missing)
    answer = GnuTime().answer()
    assert (answer.status, answer.remedy) == ("fail", "apt-get install time")
    assert not is_fit([answer])


@pytest.mark.parametrize(
    ("ok", "remedy", "status"),
    [(True, None, "ok"), (False, "type this", "fail"), (None, "maybe", "warn"), (None, None, "ok")],
)
def test_the_surveys_findings_keep_their_weight(ok: bool | None, remedy: str | None, status: str):
    """What is not ok fails, what can't be told warns if something can be done about it."""
    answer = Surveyed(Finding("memory", ok, "says so", remedy)).answer()
    assert (answer.check, answer.status, answer.says) == ("memory", status, "says so")


def test_no_place_leaves_the_limit_unproved():
    """Without a cgroup the proof is absent, not failed a second time."""
    assert LimitBites(None).answer().status == "absent"


@pytest.mark.parametrize(
    ("free", "status"), [(1 << 20, "fail"), (1 << 30, "warn"), (1 << 40, "ok")]
)
def test_disk_space_is_graded(free: int, status: str, monkeypatch: pytest.MonkeyPatch):
    """Next to nothing fails, little warns, enough is ok; the rest says where to go."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 41, 0, free))
    answer = Disk().answer()
    assert answer.status == status
    assert (answer.remedy is None) == (status == "ok")


def test_swap_without_root_is_a_warning(monkeypatch: pytest.MonkeyPatch):
    """An ordinary user is told which settings remain."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    answer = Swap().answer()
    assert answer.status == "warn"
    assert "system" in (answer.remedy or "")


def test_a_clock_that_changes_is_a_warning(plain_machine: PlainMachine):
    """A governor other than performance warns with the command; no governor is absent."""
    assert Governor(Machine(plain_machine({}))).answer().status == "absent"
    file = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    answer = Governor(Machine(plain_machine({file: "ondemand\n"}))).answer()
    assert (answer.status, answer.says) == ("warn", "ondemand")
    assert "performance" in (answer.remedy or "")
    assert Governor(Machine(plain_machine({file: "performance\n"}))).answer().status == "ok"


def test_huge_pages_for_all_are_a_warning(plain_machine: PlainMachine):
    """`always` warns, `madvise` doesn't."""
    file = "sys/kernel/mm/transparent_hugepage/enabled"
    always = HugePages(Machine(plain_machine({file: "[always] madvise never\n"}))).answer()
    assert always.status == "warn"
    madvise = HugePages(Machine(plain_machine({file: "always [madvise] never\n"}))).answer()
    assert madvise.status == "ok"


def test_free_memory_that_a_hypervisor_takes_back_is_a_warning(plain_machine: PlainMachine):
    """A balloon that reports warns; an order above the largest block, or no balloon, doesn't."""
    features = "sys/bus/virtio/drivers/virtio_balloon/virtio0/features"
    order = "sys/module/page_reporting/parameters/page_reporting_order"
    assert FreePages(Machine(plain_machine({order: "9"}))).answer().status == "absent"
    reporting = FreePages(Machine(plain_machine({features: "011001", order: "5"}))).answer()
    assert (reporting.status, "128" in reporting.says) == ("warn", True)
    assert FreePages(Machine(plain_machine({order: "11"}))).answer().status == "ok"
    assert FreePages(Machine(plain_machine({features: "011000"}))).answer().status == "absent"


def test_a_gpu_is_spoken_of_loudly(plain_machine: PlainMachine):
    """Where a GPU is seen, its memory is named as what no limit holds."""
    assert GpuMemory(Machine(plain_machine({}))).answer().status == "absent"
    answer = GpuMemory(Machine(plain_machine({"dev/nvhost-gpu": ""}))).answer()
    assert answer.status == "warn"
    assert "no limit" in answer.says


def test_ram_is_what_is_left_below_the_ceiling(plain_machine: PlainMachine):
    """The tightest limit above us counts, not the machine's RAM."""

    @dataclass
    class Place:
        ceiling_bytes: int | None

    text = "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n"
    machine = Machine(plain_machine({"proc/meminfo": text}))
    assert Ram(None, machine).answer().says == "4.00 GiB usable of 8.00 GiB"
    tight = Ram(Place(512 << 20), machine).answer()  # type: ignore[arg-type]
    assert (tight.status, tight.says) == ("warn", "512.0 MiB usable of 8.00 GiB")


def test_the_load_of_others_is_told_in_shares():
    """A look at the real machine ends in a row with two shares."""
    answer = ForeignLoad().answer()
    assert answer.status in ("ok", "warn")
    assert answer.says.count("%") == 2


def test_warnings_leave_a_machine_fit():
    """Only a failure makes a machine unfit."""
    assert is_fit([Answer("a", "ok", ""), Answer("b", "warn", ""), Answer("c", "absent", "")])
