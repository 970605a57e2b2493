from __future__ import annotations

import shutil
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from edgebench.measures.machine.system_files import SystemFiles
from edgebench.run.doctor import (
    CheckResult,
    CheckTarget,
    disk_space_check,
    enforcement_check,
    finding_result,
    foreign_load_check,
    free_memory_check,
    gnu_time_check,
    governor_check,
    gpu_memory_check,
    huge_pages_check,
    is_fit,
    ram_check,
    swap_check,
)

if TYPE_CHECKING:
    from tests.run.conftest import PlainMachine

Usage = namedtuple("Usage", ["total", "used", "free"])


@dataclass
class Finding:
    """A survey's finding, as `edgebench.cgroups.parent` makes them."""

    name: str
    ok: bool | None
    says: str
    remedy: str | None = None


def machine_of(files: Path) -> CheckTarget:
    """A machine that is made of these files."""
    return CheckTarget(SystemFiles(files))


def test_a_machine_without_gnu_time_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Without GNU time the row fails and says what to type."""
    from edgebench.errors import MachineError

    def missing() -> Path:
        raise MachineError("no GNU time here", remedy="apt-get install time")

    monkeypatch.setattr("edgebench.measures.strategies.gnu_time.find_gnu_time", missing)
    answer = gnu_time_check.result(CheckTarget())
    assert (answer.status, answer.remedy) == ("fail", "apt-get install time")
    assert not is_fit([answer])


@pytest.mark.parametrize(
    ("ok", "remedy", "status"),
    [(True, None, "ok"), (False, "type this", "fail"), (None, "maybe", "warn"), (None, None, "ok")],
)
def test_the_surveys_findings_keep_their_weight(ok: bool | None, remedy: str | None, status: str):
    """What is not ok fails, what can't be told warns if something can be done about it."""
    answer = finding_result(Finding("memory", ok, "says so", remedy))
    assert (answer.check, answer.status, answer.says) == ("memory", status, "says so")


def test_no_place_leaves_the_limit_unproved():
    """Without a cgroup the proof is absent, not failed a second time."""
    assert enforcement_check.result(CheckTarget()).status == "absent"


@pytest.mark.parametrize(
    ("free", "status"), [(1 << 20, "warn"), (1 << 30, "warn"), (1 << 40, "ok")]
)
def test_disk_space_is_graded(free: int, status: str, monkeypatch: pytest.MonkeyPatch):
    """Little warns, enough is ok; the rest says where to go."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 41, 0, free))
    answer = disk_space_check.result(CheckTarget())
    assert answer.status == status
    assert (answer.remedy is None) == (status == "ok")


def test_swap_without_root_is_a_warning(monkeypatch: pytest.MonkeyPatch):
    """An ordinary user is told which settings remain."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    answer = swap_check.result(CheckTarget())
    assert answer.status == "warn"
    assert "system" in (answer.remedy or "")


def test_a_clock_that_changes_is_a_warning(plain_machine: PlainMachine):
    """A governor other than performance warns with the command; no governor is absent."""
    assert governor_check.result(machine_of(plain_machine({}))).status == "absent"
    file = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    answer = governor_check.result(machine_of(plain_machine({file: "ondemand\n"})))
    assert (answer.status, answer.says) == ("warn", "ondemand")
    assert "performance" in (answer.remedy or "")
    assert governor_check.result(machine_of(plain_machine({file: "performance\n"}))).status == "ok"


def test_huge_pages_for_all_are_a_warning(plain_machine: PlainMachine):
    """`always` warns, `madvise` doesn't."""
    file = "sys/kernel/mm/transparent_hugepage/enabled"
    always = huge_pages_check.result(machine_of(plain_machine({file: "[always] madvise never\n"})))
    assert always.status == "warn"
    madvise = huge_pages_check.result(machine_of(plain_machine({file: "always [madvise] never\n"})))
    assert madvise.status == "ok"


def test_free_memory_that_a_hypervisor_takes_back_is_a_warning(plain_machine: PlainMachine):
    """A balloon that reports warns; an order above the largest block, or no balloon, doesn't."""
    features = "sys/bus/virtio/drivers/virtio_balloon/virtio0/features"
    order = "sys/module/page_reporting/parameters/page_reporting_order"
    assert free_memory_check.result(machine_of(plain_machine({order: "9"}))).status == "absent"
    reporting = free_memory_check.result(
        machine_of(plain_machine({features: "011001", order: "5"}))
    )
    assert (reporting.status, "128" in reporting.says) == ("warn", True)
    assert free_memory_check.result(machine_of(plain_machine({order: "11"}))).status == "ok"
    assert (
        free_memory_check.result(machine_of(plain_machine({features: "011000"}))).status == "absent"
    )


def test_a_gpu_is_spoken_of_loudly(plain_machine: PlainMachine):
    """Where a GPU is seen, its memory is named as what no limit holds."""
    assert gpu_memory_check.result(machine_of(plain_machine({}))).status == "absent"
    answer = gpu_memory_check.result(machine_of(plain_machine({"dev/nvhost-gpu": ""})))
    assert answer.status == "warn"
    assert "no limit" in answer.says


def test_ram_is_what_is_left_below_the_ceiling(plain_machine: PlainMachine):
    """The tightest limit above us counts, not the machine's RAM."""

    @dataclass
    class Place:
        ceiling_bytes: int | None

    text = "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n"
    machine = SystemFiles(plain_machine({"proc/meminfo": text}))
    assert ram_check.result(CheckTarget(machine)).says == "4.00 GiB usable of 8.00 GiB"
    tight = ram_check.result(CheckTarget(machine, Place(512 << 20)))  # type: ignore[arg-type]
    assert (tight.status, tight.says) == ("warn", "512.0 MiB usable of 8.00 GiB")


def test_the_load_of_others_is_told_in_shares():
    """A look at the real machine ends in a row with two shares."""
    answer = foreign_load_check.result(CheckTarget())
    assert answer.status in ("ok", "warn")
    assert answer.says.count("%") == 2


def test_warnings_leave_a_machine_fit():
    """Only a failure makes a machine unfit."""
    assert is_fit(
        [CheckResult("a", "ok", ""), CheckResult("b", "warn", ""), CheckResult("c", "absent", "")]
    )
