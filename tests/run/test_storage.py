"""Trials whose storage is held: which disk, what the record says, what is refused, what is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebench.cgroups.files import DiskLimit
from edgebench.cgroups.leftovers import clear_leftovers, state_folder
from edgebench.cgroups.parent import ParentCgroup
from edgebench.cgroups.storage import prove_storage
from edgebench.cgroups.swap import SwapState
from edgebench.errors import CgroupError, MachineError
from edgebench.measures.machine.system_files import (
    SWAP_FILES,
    SystemFiles,
    UnreadableError,
    whole_disk,
)
from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.trial.session import Session, StoragePlaces, open_session, swap_areas, weights_of
from edgebench.text import AS_IS
from tests.chance import cgroups_named
from tests.run.made_trials import python_trial

MIB = 1 << 20
_SHARED = Path("/dev/shm")
#: Reads a file past the page cache and prints how long that took.
READ = (
    "import mmap, os, sys, time\n"
    "descriptor = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)\n"
    "area, began, read = mmap.mmap(-1, 1 << 17), time.monotonic(), 0\n"
    "while done := os.preadv(descriptor, [area], read): read += done\n"
    "print(time.monotonic() - began)\n"
)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with open_session() as session:
        try:
            whole_disk(SystemFiles(), SWAP_FILES)
            session.setup.storage.hold("read=10MB/s", StoragePlaces((SWAP_FILES,)))
        except (UnreadableError, CgroupError) as error:
            pytest.skip(f"no disk can be held: {error}")
        yield session


@pytest.mark.own_cgroup
@pytest.mark.root
def test_a_trial_has_the_storage_that_its_record_says(session: Session, tmp_path: Path) -> None:
    """8 MiB at 10 MB/s take most of a second; the record has speeds, disks and proof."""
    file = tmp_path / "weights"
    file.write_bytes(os.urandom(8 * MIB))
    os.sync()
    limits = LimitSetting(storage="read=10MB/s")
    record = python_trial(session.setup, tmp_path, READ, str(file), limits=limits)
    assert record.outcome == "ok", record.reason
    # A burst may pass before the kernel holds the rest.
    assert float((tmp_path / "log").read_text()) > 0.4
    assert record.storage is not None
    assert (record.storage.read_bps, record.storage.write_bps) == (10_000_000, None)
    disk = whole_disk(SystemFiles(), tmp_path)
    assert disk.number in [found["number"] for found in record.storage.disks]
    assert {proof["pattern"] for proof in record.storage.proof} == {"sequential", "random"}
    assert TrialRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


@pytest.mark.own_cgroup
@pytest.mark.root
def test_weights_on_no_disk_are_refused_and_what_else_is_not_held_is_said(session: Session) -> None:
    """A tmpfs has no speed to hold; no trial is made as if it had."""
    if not _SHARED.is_mount():
        pytest.skip("no tmpfs at /dev/shm")
    with pytest.raises(MachineError, match=r"the speed of weights can't be held.*tmpfs") as refused:
        session.setup.storage.hold("read=10MB/s", StoragePlaces((_SHARED,)))
    assert refused.value.remedy
    assert "--storage as-is" in refused.value.remedy
    with pytest.raises(MachineError, match=r"there is no disk to hold: .*tmpfs"):
        session.setup.storage.hold("read=10MB/s", StoragePlaces((), (_SHARED,)))
    places = StoragePlaces((SWAP_FILES,), (_SHARED,))
    report = session.setup.storage.hold("read=10MB/s", places).report
    assert report is not None
    assert list(report.not_held) == [str(_SHARED)]
    assert "tmpfs" in report.not_held[str(_SHARED)]
    report = session.setup.storage.hold("write=5MB/s", places).report
    assert report is not None
    assert {"swap-out", "buffered writes"} < set(report.not_held)


def test_places_are_weights_and_what_a_command_reads(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_text("x")
    long = "x" * 5000
    settings = {"kind": "command", "command": ["sh", str(file), "--flag", "nul\0", long]}
    places = StoragePlaces.of(settings, {})
    assert places.needed == ()
    assert set(places.others) >= {Path.cwd(), file}
    assert len(places.others) == 3
    manifest = {"networks": {"alexnet": {"folder": "/cache/alexnet"}, "lenet": {"folder": "/l"}}}
    network = {"kind": "inference", "networks": ["alexnet"]}
    weights = weights_of(network, manifest)
    assert StoragePlaces.of(network, weights).needed == (Path("/cache/alexnet"),)


def test_zram_is_no_storage(tmp_path: Path) -> None:
    """It is RAM; of the machine's own swap only what is on a disk counts."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/swaps").write_text(
        "Filename Type Size Used Priority\n"
        "/dev/zram0 partition 1048572 0 100\n"
        "/swapfile file 1048572 0 -2\n"
    )
    machine = SystemFiles(tmp_path)
    assert swap_areas(machine, SwapState("system")) == [Path("/swapfile")]
    assert swap_areas(machine, SwapState("zram", Path("/dev/zram1"), MIB)) == []
    assert swap_areas(machine, SwapState("none")) == []


@pytest.mark.own_cgroup
@pytest.mark.root
@pytest.mark.swap
def test_nothing_is_left_of_a_killed_harness(tmp_path: Path) -> None:
    """SIGKILL while a held trial swaps: the next start removes its cgroups and files.

    Only its own are looked for: another test may hold a disk at this moment.
    """
    code = "b = bytearray(200 << 20)\nwhile True: b[::4096] = b'x' * len(b[::4096])"
    words = ["--memory", "100M", "--swap", "400M", "--storage", "read=10MB/s"]
    command = [sys.executable, "-m", "edgebench", "measure", *words, "--", sys.executable, "-c"]
    harness = subprocess.Popen([*command, code], start_new_session=True, cwd=tmp_path)
    try:
        found = _until_held(harness.pid)
        (claims,) = state_folder().glob(f"{harness.pid}-*.claims")
        claimed = [json.loads(line)[1:] for line in claims.read_text().split("\n") if line]
    finally:
        os.kill(harness.pid, signal.SIGKILL)
        harness.wait()
    clear_leftovers()
    assert not any(folder.exists() for folder in found)
    files = [Path(value) for kind, value in claimed if kind in ("temp-folder", "swap-file")]
    assert files
    assert not any(file.exists() for file in files)
    assert str(harness.pid) not in Path("/proc/swaps").read_text()


def _until_held(pid: int) -> list[Path]:
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        found = cgroups_named(f"edgebench-{pid}-0000")
        if found and all((one / "cgroup.procs").read_text() for one in found):
            time.sleep(1)
            return found
        time.sleep(0.1)
    pytest.fail("no trial began")


@pytest.fixture
def in_memory(session: Session) -> Iterator[Session]:
    """The same, with swap on a disk in memory; without any afterwards."""
    storage = session.setup.storage
    storage.use("file", 16 * MIB, "read=20MB/s,disk=ram")
    yield session
    storage.use("none", None, AS_IS)
    storage.ram_disk.off()


@pytest.mark.own_cgroup
@pytest.mark.root
@pytest.mark.swap
def test_a_disk_in_memory_is_held_and_recorded(in_memory: Session, tmp_path: Path) -> None:
    storage, weights = in_memory.setup.storage, tmp_path / "weights"
    weights.mkdir()
    (weights / "layer").write_bytes(os.urandom(8 * MIB))
    # Beside the swap there is room for the proof's file.
    copied = Path(storage.weights({"net": str(weights)}, "read=20MB/s,disk=ram")["net"])
    held = storage.hold("read=20MB/s,disk=ram", StoragePlaces((copied,), (Path(sys.prefix),)))
    assert held.report
    assert (held.report.ram, held.report.read_bps) == (True, 20_000_000)
    if sys.prefix in held.report.not_held:
        pytest.skip(held.report.not_held[sys.prefix])
    swap, machine = held.report.disks
    assert swap["name"].startswith("loop")
    assert swap["place"] == str(storage.swap.state.device)
    assert machine["number"] == whole_disk(SystemFiles(), Path(sys.prefix)).number
    assert [limit.number for limit in held.limits] == [swap["number"], machine["number"]]
    proved = [one for one in held.report.proof if one["disk"] == swap["name"]]
    assert [one["pattern"] for one in proved] == ["sequential", "random"]
    limits = LimitSetting(storage="read=20MB/s,disk=ram")
    record = python_trial(in_memory.setup, tmp_path, READ, str(copied / "layer"), limits=limits)
    assert record.outcome == "ok", record.reason
    # A burst may pass before the kernel holds the rest.
    assert float((tmp_path / "log").read_text()) > 0.2
    assert record.limits.storage == "read=20MB/s,disk=ram"
    assert TrialRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


@pytest.mark.own_cgroup
@pytest.mark.root
@pytest.mark.swap
def test_the_runtime_s_disk_may_be_slower(
    in_memory: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the disk in memory reaches and the machine's doesn't: noted; refused without it."""
    storage, usual = in_memory.setup.storage, prove_storage

    def proved(parent: ParentCgroup, limit: DiskLimit, file: Path, otherwise: str) -> object:
        if limit.name.startswith("loop"):
            return usual(parent, limit, file, otherwise)
        raise CgroupError("the disk is slower than declared", remedy=otherwise)

    monkeypatch.setattr("edgebench.run.trial.session.prove_storage", proved)
    places = StoragePlaces((), (Path(sys.prefix),))
    held = storage.hold("read=30MB/s,disk=ram", places)
    assert held.report
    assert held.report.not_held == {sys.prefix: "the disk is slower than declared"}
    assert [one["name"][:4] for one in held.report.disks] == ["loop"]
    storage.use("none", None, AS_IS)
    with pytest.raises(CgroupError) as caught:
        storage.hold("read=30MB/s", places)
    assert "--storage read=30MB/s,disk=ram" in str(caught.value.remedy)


@pytest.mark.own_cgroup
@pytest.mark.root
def test_what_is_elsewhere_is_not_called_in_memory(session: Session, tmp_path: Path) -> None:
    """The machine's own swap can't be moved; weights that weren't copied are refused."""
    storage = session.setup.storage
    with pytest.raises(MachineError, match="the machine's own swap is on no disk in memory"):
        storage.use("system", None, "disk=ram")
    with pytest.raises(MachineError, match="not on the disk in memory"):
        storage.hold("read=20MB/s,disk=ram", StoragePlaces((tmp_path,)))
