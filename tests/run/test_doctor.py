"""What the doctor and a record say of a machine: its fitness, and what takes memory back."""

from __future__ import annotations

import json
import shutil
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from edgebench.cgroups.parent import Finding
from edgebench.cli import cli
from edgebench.errors import MachineError, NotFitError
from edgebench.measures.machine.environment import capture
from edgebench.measures.machine.system_files import SystemFiles
from edgebench.run.doctor import (
    Check,
    CheckResult,
    CheckTarget,
    ballooning_check,
    damon_check,
    disk_space_check,
    finding_result,
    free_memory_check,
    gnu_time_check,
    governor_check,
    gpu_memory_check,
    huge_pages_check,
    is_fit,
    lru_gen_check,
    memory_daemons_check,
    ram_check,
    swap_check,
    swappiness_check,
    zswap_check,
)
from tests.own_path import call

if TYPE_CHECKING:
    from tests.run.conftest import PlainMachine
import os

from edgebench.measures.machine.system_files import (
    UnreadableError,
    WholeDisk,
    disk_of,
    whole_disk,
)
from edgebench.run.doctor import disk_observation


# Where root can have swap, the doctor tries it for a moment.
@pytest.mark.exclusive
@pytest.mark.own_cgroup
def test_doctor_finds_this_machine_fit():
    done = call("doctor", "--verbose")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("  ok    cgroup: ")
    assert "limits enforced" in done.stdout
    assert "next: edgebench run" in done.stderr


def printed(monkeypatch: pytest.MonkeyPatch, results: list[CheckResult], *flags: str) -> Result:
    """What the verb prints of these results."""
    monkeypatch.setattr("edgebench.run.doctor.check_machine", lambda: results)
    return CliRunner().invoke(cli, ["doctor", *flags], standalone_mode=False)


def test_an_unfit_machine_is_told_why(monkeypatch: pytest.MonkeyPatch):
    results = [finding_result(Finding("memory controller", False, "off", "boot with it"))]
    told = printed(monkeypatch, results)
    assert isinstance(told.exception, NotFitError)
    assert told.exception.exit_code == 5
    assert "memory controller" in str(told.exception)
    assert "  no    memory controller: off\n        boot with it\n" in told.stdout
    answer = json.loads(printed(monkeypatch, results, "--json").stdout)
    assert (answer["fit"], answer["checks"][0]["remedy"]) == (False, "boot with it")


def test_only_what_is_not_ok_is_printed(monkeypatch: pytest.MonkeyPatch):
    results = [
        CheckResult("swap", "ok", "a swap file can be made"),
        CheckResult("torch", "absent", "not installed"),
        CheckResult("disk under weights", "warn", "read-ahead 8192 KiB", "echo 128"),
        CheckResult("disk under swap files", "warn", "read-ahead 8192 KiB", "echo 128"),
    ]
    brief = printed(monkeypatch, results).stdout
    verbose = printed(monkeypatch, results, "--verbose").stdout
    assert "warn  disk under weights, disk under swap files: read-ahead" in brief
    assert brief.count("echo 128") == 1
    assert brief.startswith("  ok    swap (1 of 4 checks)\n")
    assert "a swap file can be made" not in brief
    assert "a swap file can be made" in verbose
    assert "not installed" in verbose


@pytest.mark.parametrize(
    ("ok", "step"),
    [
        (("torch", "swap", "storage"), "edgebench run quickstart"),
        # Version 2 without the controller io: no disk can be held to a speed.
        (("torch", "swap"), "edgebench minimum --swap 2G resnet18"),
        (("torch",), "edgebench minimum resnet18"),
        (("swap", "storage"), "edgebench minimum --swap 2G -- python3 -c"),
    ],
)
def test_the_next_step_works_on_this_machine(ok: tuple[str, ...], step: str):
    """The quick start is named only where nothing that it needs is missing."""
    from edgebench.cli.doctor import next_step

    names = ("torch", "swap", "storage")
    made = [CheckResult(name, "ok" if name in ok else "absent", "", None) for name in names]
    assert next_step(made).startswith(step)


Usage = namedtuple("Usage", ["total", "used", "free"])


def test_a_machine_without_gnu_time_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):

    def missing() -> Path:
        raise MachineError("no GNU time here", remedy="apt-get install time")

    monkeypatch.setattr("edgebench.measures.gnu_time.find_gnu_time", missing)
    answer = gnu_time_check.result(CheckTarget())
    assert (answer.status, answer.remedy) == ("fail", "apt-get install time")
    assert not is_fit([answer])


@pytest.mark.parametrize(
    ("ok", "remedy", "status"),
    [(True, None, "ok"), (False, "type this", "fail"), (None, "maybe", "warn"), (None, None, "ok")],
)
def test_the_surveys_findings_keep_their_weight(ok: bool | None, remedy: str | None, status: str):
    answer = finding_result(Finding("memory", ok, "says so", remedy))
    assert (answer.check, answer.status, answer.says) == ("memory", status, "says so")


@pytest.mark.parametrize(
    ("free", "status"), [(1 << 20, "warn"), (1 << 30, "warn"), (1 << 40, "ok")]
)
def test_disk_space_is_graded(free: int, status: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1 << 41, 0, free))
    answer = disk_space_check.result(CheckTarget())
    assert answer.status == status
    assert (answer.remedy is None) == (status == "ok")


def test_swap_without_root_is_a_warning(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    answer = swap_check.result(CheckTarget())
    assert answer.status == "warn"
    assert "system" in (answer.remedy or "")


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


GOVERNOR = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
HUGE = "sys/kernel/mm/transparent_hugepage/enabled"
BALLOON = "sys/bus/virtio/drivers/virtio_balloon/virtio0/features"
ORDER = "sys/module/page_reporting/parameters/page_reporting_order"
KDAMONDS = "sys/kernel/mm/damon/admin/kdamonds"
DAMON = {f"{KDAMONDS}/nr_kdamonds": "1", f"{KDAMONDS}/0/state": "on\n", "proc/1/comm": "init\n"}
PAGEOUT = {f"{KDAMONDS}/0/contexts/0/schemes/0/action": "pageout\n", "proc/77/comm": "kdamond.0\n"}
ZSWAP = {"compressor": "lzo", "max_pool_percent": "20"}
DAEMONS = {"proc/9/comm": "earlyoom\n", "proc/12/comm": "systemd-oomd\n"}
UNPLUGS = "sys/bus/virtio/drivers/virtio_mem/virtio5/features"


CLUSTER = {"proc/sys/vm/page-cluster": "3"}


def balloon(pages: int) -> dict[str, str]:
    return {BALLOON: "0", "proc/vmstat": f"balloon_inflate {pages}\n"}


def zswap(enabled: str) -> dict[str, str]:
    values = {**ZSWAP, "enabled": enabled}
    return {f"sys/module/zswap/parameters/{name}": value for name, value in values.items()}


def lru_gen(enabled: str, ttl_ms: str) -> dict[str, str]:
    """The multi-generation LRU, which may kill to protect what was used lately."""
    folder = "sys/kernel/mm/lru_gen"
    return {f"{folder}/enabled": enabled, f"{folder}/min_ttl_ms": ttl_ms}


@pytest.mark.promise(
    "What else reclaims memory (DAMON, zswap, the multi-generation LRU, daemons, balloons) "
    "and the disks of swap and weights are recorded, each as a value or a reason; `doctor` "
    "lists what disturbs trials, `compare` how two sweeps' machines differed."
)
@pytest.mark.parametrize(
    ("check", "files", "status", "words"),
    [
        (governor_check, {}, "absent", ""),
        (governor_check, {GOVERNOR: "ondemand\n"}, "warn", "performance"),
        (governor_check, {GOVERNOR: "performance\n"}, "ok", ""),
        (huge_pages_check, {HUGE: "[always] madvise never\n"}, "warn", ""),
        (huge_pages_check, {HUGE: "always [madvise] never\n"}, "ok", ""),
        # A balloon that reports, blocks of 2⁵ pages; above the largest block it reports none.
        (free_memory_check, {ORDER: "9"}, "absent", ""),
        (free_memory_check, {BALLOON: "011001", ORDER: "5"}, "warn", "128"),
        (free_memory_check, {BALLOON: "011001", ORDER: "11"}, "ok", ""),
        (free_memory_check, {BALLOON: "011000", ORDER: "5"}, "absent", ""),
        (gpu_memory_check, {}, "absent", ""),
        (gpu_memory_check, {"dev/nvhost-gpu": ""}, "warn", "no limit"),
        (damon_check, {"proc/1/comm": "init\n"}, "absent", ""),
        (damon_check, DAMON | PAGEOUT, "warn", "echo off | sudo tee"),
        (damon_check, {**DAMON, f"{KDAMONDS}/0/state": "off\n"}, "ok", ""),
        (zswap_check, zswap("Y"), "warn", ""),
        (zswap_check, zswap("N"), "ok", ""),
        (swappiness_check, CLUSTER | {"proc/sys/vm/swappiness": "0"}, "warn", ""),
        (swappiness_check, CLUSTER | {"proc/sys/vm/swappiness": "60"}, "ok", "up to 8 pages"),
        # Where it is on and protects by time.
        (lru_gen_check, lru_gen("0x0007", "1000"), "warn", ""),
        (lru_gen_check, lru_gen("0x0007", "0"), "ok", ""),
        (lru_gen_check, lru_gen("0x0000", "1000"), "ok", ""),
        (memory_daemons_check, {"proc/1/comm": "init\n"}, "ok", ""),
        (memory_daemons_check, DAEMONS, "warn", "sudo systemctl stop earlyoom systemd-oomd"),
        (ballooning_check, {}, "absent", ""),
        (ballooning_check, balloon(0), "ok", ""),
        (ballooning_check, balloon(512), "warn", "2.0 MiB taken"),
        (ballooning_check, balloon(0) | {UNPLUGS: "0"}, "warn", "on its host"),
    ],
)
def test_what_disturbs_trials_is_a_warning(
    check: Check, files: dict[str, str], status: str, words: str, plain_machine: PlainMachine
):
    answer = check.result(CheckTarget(SystemFiles(plain_machine(files))))
    assert answer.status == status
    assert words in f"{answer.says} {answer.remedy}"


@pytest.mark.process
@pytest.mark.parametrize(
    ("key", "files", "value"),
    [
        ("damon", DAMON | PAGEOUT, {"running": ["kdamond.0"], "actions": ["pageout"]}),
        ("damon", {"proc/1/comm": "init\n"}, None),
        ("lru_gen", lru_gen("0x0007", "1000"), {"enabled": True, "min_ttl_ms": 1000}),
        ("memory_daemons", {"proc/1/comm": "init\n"}, []),
        ("ballooning", balloon(7), {"drivers": ["virtio_balloon"], "inflated_pages": 7}),
    ],
)
def test_what_disturbs_trials_is_recorded(
    key: str, files: dict[str, str], value: object, plain_machine: PlainMachine
):
    captured = capture(machine=SystemFiles(plain_machine({**files, **zswap("Y")})))
    assert captured[key] == value
    assert (key in captured["missing"]) == (value is None)
    assert captured["zswap"]["enabled"] is True


def blocks(path: Path) -> str:
    """The name in sysfs of the block device that the path's number is of."""
    number = path.stat().st_dev
    return f"sys/dev/block/{os.major(number)}:{os.minor(number)}"


def link(root: Path, name: str, target: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).symlink_to(root / target)


@pytest.mark.promise(
    "What else reclaims memory (DAMON, zswap, the multi-generation LRU, daemons, balloons) "
    "and the disks of swap and weights are recorded, each as a value or a reason; `doctor` "
    "lists what disturbs trials, `compare` how two sweeps' machines differed."
)
def test_the_disk_under_a_partition_and_a_mapper_is_found(
    plain_machine: PlainMachine, tmp_path: Path
):
    """A partition's disk; a mapper itself, which the kernel holds, not what is below it."""
    root = plain_machine(
        {
            "sys/devices/sda/dev": "8:0",
            "sys/devices/sda/queue/read_ahead_kb": "4096",
            "sys/devices/sda/queue/nr_requests": "64",
            "sys/devices/sda/queue/rotational": "1",
            "sys/devices/sda/queue/scheduler": "none [mq-deadline] bfq",
            "sys/devices/sda/sda1/partition": "1",
            "sys/devices/sda/sda1/dev": "8:1",
            "sys/devices/dm-0/dev": "253:0",
            "sys/devices/dm-0/queue/read_ahead_kb": "128",
            "sys/devices/dm-0/queue/scheduler": "none",
        }
    )
    device = blocks(tmp_path)
    link(root, device, "sys/devices/sda/sda1")
    disk = WholeDisk("8:0", "sda", 4096, 64, "mq-deadline", True)
    assert whole_disk(SystemFiles(root), tmp_path) == disk
    told = disk_of(SystemFiles(root), tmp_path / "not" / "yet")
    assert told == {"disk": "sda", "read_ahead_kb": 4096, "scheduler": "mq-deadline"}
    answer = disk_observation(SystemFiles(root), tmp_path)
    assert answer.remedy == "echo 128 | sudo tee /sys/block/sda/queue/read_ahead_kb"
    (root / device).unlink()
    link(root, device, "sys/devices/dm-0")
    link(root, "sys/devices/dm-0/slaves/sda1", "sys/devices/sda/sda1")
    mapper = WholeDisk("253:0", "dm-0", 128, scheduler="none")
    assert whole_disk(SystemFiles(root), tmp_path) == mapper
    told = disk_of(SystemFiles(root), tmp_path)
    assert told == {"disk": "dm-0", "read_ahead_kb": 128, "scheduler": "none"}
    assert disk_observation(SystemFiles(root), tmp_path).remedy is None


@pytest.mark.process
def test_what_lies_on_no_disk_says_on_what(plain_machine: PlainMachine, tmp_path: Path):
    """An overlay, say: None with a reason."""
    number = tmp_path.stat().st_dev
    mount = f"1 0 {os.major(number)}:{os.minor(number)} / / rw - overlay overlay rw"
    machine = SystemFiles(plain_machine({"proc/self/mountinfo": mount}))
    with pytest.raises(UnreadableError, match="it lies on overlay"):
        disk_of(machine, tmp_path)
    captured = capture(machine=machine, weights=tmp_path)
    assert captured["weights_disk"] is None
    assert "overlay" in captured["missing"]["weights_disk"]


def test_btrfs_on_several_devices_is_refused(plain_machine: PlainMachine, tmp_path: Path):
    """Each of them would be held by itself, and the declared speed would be exceeded."""
    number = tmp_path.stat().st_dev
    mount = f"1 0 {os.major(number)}:{os.minor(number)} / / rw - btrfs /dev/sda rw"
    devices = "sys/fs/btrfs/0000/devices"
    root = plain_machine({"proc/self/mountinfo": mount, f"{devices}/sda": "", f"{devices}/sdb": ""})
    with pytest.raises(UnreadableError, match="btrfs on several devices: sda, sdb"):
        whole_disk(SystemFiles(root), tmp_path)
