"""A cgroup's disks held to a speed: what the kernel has, what it refuses, what a kill lifts."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebench.boards import StorageSpeed, parse_storage
from edgebench.cgroups.files import DiskLimit, lift_disk_limits, set_disk_limits
from edgebench.cgroups.interface import Cgroup, Limits
from edgebench.cgroups.join import join_command
from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.parent import ParentCgroup
from edgebench.cgroups.storage import TOLERANCE, probe, prove_storage
from edgebench.errors import CgroupError
from edgebench.measures.machine.system_files import (
    SWAP_FILES,
    SystemFiles,
    UnreadableError,
    whole_disk,
)
from edgebench.run.trial.session import proof_file
from tests.trust.stranger import STRANGER

_SPEED = parse_storage("read=20MB/s,write=10MB/s,read_iops=1000,write_iops=500")

WAYS = ("read", "write")


@pytest.fixture
def limit(cgroup: Cgroup) -> DiskLimit:
    """Of the real disk; skips where the kernel can't hold it."""
    try:
        limit = DiskLimit(whole_disk(SystemFiles(), SWAP_FILES).number, "disk", _SPEED)
        cgroup.hold_disks((limit,))
    except (UnreadableError, CgroupError) as error:
        pytest.skip(f"no disk: {error}")
    return limit


@pytest.fixture
def file(limit: DiskLimit, ownership: Ownership) -> Iterator[Path]:
    place = limit.number, SWAP_FILES, [SWAP_FILES]
    with proof_file(SystemFiles(), ownership, *place, writes=True) as file:
        yield file


@pytest.mark.own_cgroup
@pytest.mark.root
def test_the_kernel_has_what_was_set(cgroup: Cgroup, limit: DiskLimit) -> None:
    """A disk that is not there, or a partition's number, it refuses in its own words."""
    applied = cgroup.set_limits(Limits(memory_bytes=64 << 20, disks=(limit,)))
    assert applied.disks == (limit,)
    other = DiskLimit(limit.number, limit.name, StorageSpeed(read_bps=5_000_000))
    assert cgroup.hold_disks((other,)) == (other,)
    wrong = DiskLimit("4095:77", "gone", limit.speed)
    with pytest.raises(CgroupError, match="the kernel refused to hold a disk") as refused:
        cgroup.hold_disks((wrong,))
    assert refused.value.remedy


def test_without_the_controller_it_says_which_one(tmp_path: Path) -> None:
    """No blkio folder at all, or one without the kernel's throttling; version 2 needs io."""
    limit = DiskLimit("8:0", "sda", _SPEED)
    for version, folder, name in ((1, None, "blkio"), (1, tmp_path, "blkio"), (2, tmp_path, "io")):
        with pytest.raises(CgroupError, match=f"the {name} controller is not available") as refused:
            set_disk_limits(version, folder, [limit])
        assert refused.value.where == (str(folder) if folder else None)
        assert f"the {name} controller available" in str(refused.value.remedy)


def test_a_speed_that_the_kernel_ignores_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "io.max"
    file.write_text("")
    file.chmod(0o600)
    limit = DiskLimit("8:0", "sda", _SPEED)
    assert set_disk_limits(2, tmp_path, [limit]) == (limit,)
    told = "8:0 rbps=20000000 wbps=10000000 riops=1000 wiops=500"
    assert file.read_text() == told
    lift_disk_limits(tmp_path)
    assert file.read_text() == "8:0 rbps=max wbps=max riops=max wiops=max"
    other = DiskLimit("8:16", "sdb", StorageSpeed(read_iops=77))
    file.unlink()
    file.symlink_to("/dev/null")
    with pytest.raises(CgroupError, match="is not held: asked for read_iops=77"):
        set_disk_limits(2, tmp_path, [other])


@pytest.mark.own_cgroup
@pytest.mark.root
def test_a_process_that_waits_for_a_held_disk_is_killed_at_once(
    cgroup: Cgroup, limit: DiskLimit, file: Path
) -> None:
    """Its request of 32 MiB would take ten minutes at the declared speed."""
    cgroup.hold_disks((DiskLimit(limit.number, "disk", StorageSpeed(read_bps=50_000)),))
    code = (
        "import mmap, os, sys\n"
        "descriptor = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)\n"
        "area = mmap.mmap(-1, 32 << 20)\n"
        "print('reads', flush=True)\n"
        "os.preadv(descriptor, [area], 0)\n"
    )
    words = [sys.executable, "-I", "-S", "-c", code, str(file)]
    process = subprocess.Popen(
        join_command(cgroup, words, None, None), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "reads\n"
    time.sleep(0.3)
    cgroup.kill()
    assert process.wait(200) == -9
    process.stdout.close()


@pytest.mark.own_cgroup
@pytest.mark.root
def test_a_held_disk_is_proved(parent: ParentCgroup, limit: DiskLimit, file: Path) -> None:
    slow = DiskLimit(limit.number, limit.name, parse_storage("read_iops=100,write=10MB/s"))
    proofs = {(p.direction, p.pattern): p for p in prove_storage(parent, slow, file)}
    assert [*proofs] == [(way, how) for way in WAYS for how in ("sequential", "random")]
    assert all(proof.off <= TOLERANCE for proof in proofs.values())
    assert proofs["read", "random"].held.iops == pytest.approx(100, rel=TOLERANCE)
    assert not list(parent.path.glob(f"edgebench-{os.getpid()}-storage"))


@pytest.mark.own_cgroup
@pytest.mark.root
def test_files_are_probed_with_the_rights_of_their_owner(parent: ParentCgroup) -> None:
    """A user's weights are read; a link to what only root may read, or a FIFO, is refused."""
    words = ["read", "sequential:4096:1:0.1"]
    with tempfile.TemporaryDirectory(prefix="trust-", dir="/var/tmp") as name:
        top = Path(name)
        top.chmod(0o711)
        (own := top / "own").mkdir()
        for file in (own / "weights", top / "root's"):
            file.write_bytes(os.urandom(1 << 20))
            file.chmod(0o600)
        (own / "link").symlink_to(top / "root's")
        os.mkfifo(own / "fifo")
        for file in (own, *own.iterdir()):
            os.chown(file, STRANGER, STRANGER, follow_symlinks=False)
        (read,) = probe(parent, None, own / "weights", words)
        assert read.iops > 0
        for planted, why in (("link", "Permission denied"), ("fifo", "it is a FIFO")):
            with pytest.raises(CgroupError, match=why):
                probe(parent, None, own / planted, words)
    assert not list(parent.path.glob(f"edgebench-{os.getpid()}-storage"))


def test_version_1_has_a_file_for_each_speed(tmp_path: Path) -> None:
    """What isn't declared is not held: 0 there. What a file keeps is what counts."""
    names = [f"blkio.throttle.{way}_{what}_device" for what in ("bps", "iops") for way in WAYS]
    for name in names:
        (tmp_path / name).write_text("")
    limit = DiskLimit("8:0", "sda", parse_storage("read=20MB/s,write_iops=500"))
    asked = {}

    def keep(file: Path, words: str) -> None:
        asked[file.name] = words
        # The kernel shows other disks, too, and none that is not held.
        held = "" if words.endswith(" 0") else f"{words}\n"
        file.write_text(f"8:16 77\n{held}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgebench.cgroups.files._write_speed", keep)
        assert set_disk_limits(1, tmp_path, [limit]) == (limit,)
    assert asked == dict(zip(names, ("8:0 20000000", "8:0 0", "8:0 0", "8:0 500"), strict=True))
    lift_disk_limits(tmp_path)
    assert (tmp_path / names[0]).read_text() == "8:0 0"
