"""What else takes memory back, and the disks under swap and weights: recorded, and named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from edgebench.measures.machine.environment import capture
from edgebench.measures.machine.system_files import (
    SystemFiles,
    UnreadableError,
    WholeDisk,
    disk_of,
    whole_disk,
)
from edgebench.run.doctor import disk_observation

if TYPE_CHECKING:
    from tests.run.conftest import PlainMachine


def blocks(root: Path, path: Path) -> str:
    """The name in sysfs of the block device that the path's number is of."""
    number = path.stat().st_dev
    return f"sys/dev/block/{os.major(number)}:{os.minor(number)}"


def link(root: Path, name: str, target: str) -> None:
    """A link below the root, as sysfs has them."""
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
    """A partition's disk; a mapper itself."""
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


def test_btrfs_on_several_devices_is_refused(plain_machine: PlainMachine, tmp_path: Path):
    """Each of them would be held by itself, and the declared speed would be exceeded."""
    number = tmp_path.stat().st_dev
    mount = f"1 0 {os.major(number)}:{os.minor(number)} / / rw - btrfs /dev/sda rw"
    devices = "sys/fs/btrfs/0000/devices"
    root = plain_machine({"proc/self/mountinfo": mount, f"{devices}/sda": "", f"{devices}/sdb": ""})
    with pytest.raises(UnreadableError, match="btrfs on several devices: sda, sdb"):
        whole_disk(SystemFiles(root), tmp_path)
