"""What else takes memory back, and the disks under swap and weights: recorded, and named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from edgebench.analysis.environments import environment_differences, value_text
from edgebench.measures.machine.disks import WholeDisk, disk_of, whole_disk
from edgebench.measures.machine.environment import capture, damon
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.run.doctor import (
    CheckTarget,
    ballooning_check,
    damon_check,
    disk_observation,
    lru_gen_check,
    memory_daemons_check,
    swappiness_check,
    zswap_check,
)

if TYPE_CHECKING:
    from tests.run.conftest import PlainMachine

KDAMONDS = "sys/kernel/mm/damon/admin/kdamonds"
SCHEME = f"{KDAMONDS}/0/contexts/0/schemes/0/action"
INIT = {"proc/1/comm": "init\n"}
ZSWAP = "sys/module/zswap/parameters"
LRU_GEN = "sys/kernel/mm/lru_gen"
BALLOON = "sys/bus/virtio/drivers/virtio_balloon/virtio0/features"


def blocks(root: Path, path: Path) -> str:
    """The name in sysfs of the block device that the path's number is of."""
    number = path.stat().st_dev
    return f"sys/dev/block/{os.major(number)}:{os.minor(number)}"


def link(root: Path, name: str, target: str) -> None:
    """A link below the root, as sysfs has them."""
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).symlink_to(root / target)


@pytest.mark.process
@pytest.mark.promise(
    "What else reclaims memory (DAMON, zswap, the multi-generation LRU, daemons, balloons) "
    "and the disks of swap and weights are recorded, each as a value or a reason; `doctor` "
    "lists what disturbs trials, `compare` how two sweeps' machines differed."
)
def test_damon_that_pages_out_is_named_with_what_it_does(plain_machine: PlainMachine):
    """A running thread warns, with the command; a monitor that is off, or none, does not."""
    files = {**INIT, "proc/77/comm": "kdamond.0\n", f"{KDAMONDS}/nr_kdamonds": "1"}
    files |= {f"{KDAMONDS}/0/state": "on\n", SCHEME: "pageout\n"}
    root = plain_machine(files)
    answer = damon_check.result(CheckTarget(SystemFiles(root)))
    assert (answer.status, answer.says) == ("warn", "kdamond.0 runs, with pageout")
    assert "echo off | sudo tee" in (answer.remedy or "")
    assert capture(machine=SystemFiles(root))["damon"] == {
        "running": ["kdamond.0"],
        "actions": ["pageout"],
    }
    (root / "proc/77/comm").unlink()
    (root / KDAMONDS / "0/state").write_text("off\n")
    assert damon_check.result(CheckTarget(SystemFiles(root))).status == "ok"
    assert damon(SystemFiles(root)) == {"running": [], "actions": []}


@pytest.mark.process
def test_a_kernel_without_damon_is_none_with_a_reason(plain_machine: PlainMachine):
    """Absent in doctor, None in the record."""
    machine = SystemFiles(plain_machine(INIT))
    assert damon_check.result(CheckTarget(machine)).status == "absent"
    captured = capture(machine=machine)
    assert captured["damon"] is None
    assert "nr_kdamonds" in captured["missing"]["damon"]


@pytest.mark.process
@pytest.mark.parametrize(("enabled", "status"), [("Y", "warn"), ("N", "ok")])
def test_zswap_before_swap_is_named(enabled: str, status: str, plain_machine: PlainMachine):
    """On it warns, off it doesn't; both are recorded."""
    files = {f"{ZSWAP}/enabled": enabled, f"{ZSWAP}/compressor": "lzo"}
    machine = SystemFiles(plain_machine({**files, f"{ZSWAP}/max_pool_percent": "20"}))
    assert zswap_check.result(CheckTarget(machine)).status == status
    assert capture(machine=machine)["zswap"]["enabled"] == (enabled == "Y")


@pytest.mark.parametrize(("swappiness", "status"), [("0", "warn"), ("60", "ok")])
def test_swappiness_of_none_is_named(swappiness: str, status: str, plain_machine: PlainMachine):
    """At 0 the kernel kills instead of swapping."""
    files = {"proc/sys/vm/swappiness": swappiness, "proc/sys/vm/page-cluster": "3"}
    answer = swappiness_check.result(CheckTarget(SystemFiles(plain_machine(files))))
    assert answer.status == status
    assert "up to 8 pages" in answer.says


@pytest.mark.process
@pytest.mark.parametrize(
    ("enabled", "ttl", "status"),
    [("0x0007", "1000", "warn"), ("0x0007", "0", "ok"), ("0x0000", "1000", "ok")],
)
def test_an_lru_that_kills_early_is_named(
    enabled: str, ttl: str, status: str, plain_machine: PlainMachine
):
    """Only where it is on and protects by time."""
    files = {f"{LRU_GEN}/enabled": enabled, f"{LRU_GEN}/min_ttl_ms": ttl}
    machine = SystemFiles(plain_machine(files))
    answer = lru_gen_check.result(CheckTarget(machine))
    assert answer.status == status
    told = {"enabled": enabled != "0x0000", "min_ttl_ms": int(ttl)}
    assert capture(machine=machine)["lru_gen"] == told


@pytest.mark.process
def test_daemons_that_kill_are_named(plain_machine: PlainMachine):
    """By their names; none running is an answer, no process at all is none."""
    machine = SystemFiles(plain_machine(INIT))
    assert memory_daemons_check.result(CheckTarget(machine)).status == "ok"
    assert capture(machine=machine)["memory_daemons"] == []
    plain_machine({"proc/9/comm": "earlyoom\n", "proc/12/comm": "systemd-oomd\n"})
    answer = memory_daemons_check.result(CheckTarget(machine))
    assert answer.remedy == "sudo systemctl stop earlyoom systemd-oomd"


@pytest.mark.process
def test_a_balloon_that_took_memory_is_named(plain_machine: PlainMachine):
    """One that never did is recorded and left alone; memory that can be unplugged warns."""
    assert ballooning_check.result(CheckTarget(SystemFiles(plain_machine({})))).status == "absent"
    machine = SystemFiles(plain_machine({BALLOON: "0", "proc/vmstat": "balloon_inflate 0\n"}))
    assert ballooning_check.result(CheckTarget(machine)).status == "ok"
    told = {"drivers": ["virtio_balloon"], "inflated_pages": 0}
    assert capture(machine=machine)["ballooning"] == told
    plain_machine({"proc/vmstat": "balloon_inflate 512\n"})
    answer = ballooning_check.result(CheckTarget(machine))
    assert (answer.status, "2.0 MiB taken" in answer.says) == ("warn", True)
    plain_machine({"proc/vmstat": "balloon_inflate 0\n"})
    plain_machine({"sys/bus/virtio/drivers/virtio_mem/virtio5/features": "0"})
    assert "requested-size" in (ballooning_check.result(CheckTarget(machine)).remedy or "")


@pytest.mark.promise(
    "What else reclaims memory (DAMON, zswap, the multi-generation LRU, daemons, balloons) "
    "and the disks of swap and weights are recorded, each as a value or a reason; `doctor` "
    "lists what disturbs trials, `compare` how two sweeps' machines differed."
)
def test_the_disk_under_a_partition_and_a_mapper_is_found(
    plain_machine: PlainMachine, tmp_path: Path
):
    """A partition's disk, and of a mapper its own read-ahead with the disk's scheduler."""
    root = plain_machine(
        {
            "sys/devices/sda/queue/read_ahead_kb": "4096",
            "sys/devices/sda/queue/scheduler": "none [mq-deadline] bfq",
            "sys/devices/sda/sda1/partition": "1",
            "sys/devices/dm-0/queue/read_ahead_kb": "128",
            "sys/devices/dm-0/queue/scheduler": "none",
        }
    )
    device = blocks(root, tmp_path)
    link(root, device, "sys/devices/sda/sda1")
    told = disk_of(SystemFiles(root), tmp_path / "not" / "yet")
    assert told == {"disk": "sda", "read_ahead_kb": 4096, "scheduler": "mq-deadline"}
    answer = disk_observation(SystemFiles(root), tmp_path)
    assert answer.remedy == "echo 128 | sudo tee /sys/block/sda/queue/read_ahead_kb"
    (root / device).unlink()
    link(root, device, "sys/devices/dm-0")
    link(root, "sys/devices/dm-0/slaves/sda1", "sys/devices/sda/sda1")
    told = disk_of(SystemFiles(root), tmp_path)
    assert told == {"disk": "dm-0 on sda", "read_ahead_kb": 128, "scheduler": "mq-deadline"}
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


def test_shared_memory_is_on_no_disk_of_this_machine():
    """The real thing: a tmpfs."""
    if not Path("/dev/shm").is_mount():
        pytest.skip("no tmpfs at /dev/shm")
    with pytest.raises(UnreadableError, match="it lies on tmpfs"):
        disk_of(SystemFiles(), Path("/dev/shm"))


def test_differences_are_told_in_words():
    """Only what differs, and nothing of what one sweep never looked at."""
    a = {"swappiness": 60, "damon": {"running": ["kdamond.0"], "actions": ["pageout"]}, "thp": None}
    b = {"swappiness": 60, "damon": {"running": [], "actions": []}, "thp": "madvise", "zswap": {}}
    assert environment_differences(a, b) == [
        "DAMON: running kdamond.0, actions pageout in a, running none, actions none in b",
        "huge pages: unknown in a, madvise in b",
    ]
    assert value_text({"enabled": False, "min_ttl_ms": 0}) == "enabled no, min ttl ms 0"


def test_the_whole_disk_of_a_partition_and_of_a_mapper(plain_machine: PlainMachine, tmp_path: Path):
    """The kernel holds whole disks; a mapper is held itself, not what is below it."""
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
        }
    )
    device = blocks(root, tmp_path)
    link(root, device, "sys/devices/sda/sda1")
    assert whole_disk(SystemFiles(root), tmp_path) == WholeDisk(
        "8:0", "sda", 4096, 64, "mq-deadline", True
    )
    (root / device).unlink()
    link(root, device, "sys/devices/dm-0")
    link(root, "sys/devices/dm-0/slaves/sda1", "sys/devices/sda/sda1")
    assert whole_disk(SystemFiles(root), tmp_path) == WholeDisk("253:0", "dm-0")


def test_an_overlay_is_held_where_its_layers_are_on_one_disk(
    plain_machine: PlainMachine, tmp_path: Path
):
    """Layers that can't be seen, as in a container, are refused with the reason."""
    number = Path("/proc").stat().st_dev
    below = tmp_path / "layers"
    below.mkdir()
    options = f"rw,lowerdir={below}:{tmp_path},upperdir={below},workdir=/gone"
    mount = f"1 0 {os.major(number)}:{os.minor(number)} / / rw - overlay overlay "
    root = plain_machine(
        {"proc/self/mountinfo": f"{mount}{options}\n", "sys/devices/sda/dev": "8:0"}
    )
    link(root, blocks(root, tmp_path), "sys/devices/sda")
    assert whole_disk(SystemFiles(root), Path("/proc")).name == "sda"
    plain_machine({"proc/self/mountinfo": f"{mount}rw,lowerdir=/gone/a:/gone/b\n"})
    with pytest.raises(UnreadableError, match="it lies on overlay, whose layers are not visible"):
        whole_disk(SystemFiles(root), Path("/proc"))


def test_btrfs_on_several_devices_is_refused(plain_machine: PlainMachine, tmp_path: Path):
    """Each of them would be held by itself, and the declared speed would be exceeded."""
    number = tmp_path.stat().st_dev
    mount = f"1 0 {os.major(number)}:{os.minor(number)} / / rw - btrfs /dev/sda rw"
    devices = "sys/fs/btrfs/0000/devices"
    root = plain_machine({"proc/self/mountinfo": mount, f"{devices}/sda": "", f"{devices}/sdb": ""})
    with pytest.raises(UnreadableError, match="btrfs on several devices: sda, sdb"):
        whole_disk(SystemFiles(root), tmp_path)
