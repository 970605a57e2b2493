"""The disk that trials use: one in memory, and how fast a disk is and is held to be.

A disk in memory is as fast as memory, so only the declared speed decides how fast it is read. A
file in ramfs, whose pages the kernel never swaps, becomes a loop device with a file system on it.
The kernel holds a loop device to a speed as any other disk, while the machine's own disk, however
slow or busy, has no part in it (docs/decisions.md).

Before anything is measured, a disk is proved to be held to its speed. It is read (and written,
where that is declared) past the page cache from inside a cgroup: first as it is, which tells what
it can do, then held.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from edgebench.boards import AS_IS_REMEDY, round_speed
from edgebench.cgroups.files import DiskLimit
from edgebench.cgroups.join import join_command
from edgebench.cgroups.leftovers import Ownership, clear_ram_disk, run_tool
from edgebench.cgroups.parent import ParentCgroup
from edgebench.errors import CgroupError, MachineError
from edgebench.processes import caller_identity
from edgebench.safe_files import created, make_folder, make_private_folder, open_to_read
from edgebench.text import MIB, format_size

#: What is left free in memory besides the disk.
_SPARE_BYTES = 512 * MIB
#: Beside what is asked for: the file system's own tables, and the file that proves a speed.
_OWN_BYTES, _OWN_SHARE = 112 * MIB, 0.02
#: 128 KiB, as disks read ahead by default.
_READ_AHEAD_SECTORS = "256"
_MAKE_FILE_SYSTEM = ("mkfs.ext4", "-q", "-F", "-m", "0", "-b", "4096", "-N", "4096")
#: Nothing that the kernel would go on doing while trials run.
_AT_ONCE = ("-O", "^has_journal", "-E", "nodiscard,lazy_itable_init=0")
_SMALLER = "ask for less swap, or use the machine's own disk: leave disk=ram out"
_COPY, _COPY_LIMIT_S = "edgebench.cgroups.storage:copy_files", 3600.0
_OTHER_DISK = "leave disk=ram out: then the machine's own disk is used"

_PROBE_LIMIT_S = 60.0
#: How far a held disk's speed may be from the declared one, as a share.
TOLERANCE = 0.1
#: Where the disk by itself is not faster than this times the declared speed, only more than the
#: declared speed is a fault: the disk may be what is slow.
_MARGIN = 1.25
_ATTEMPTS = 3
_PAGE = 4096
_LARGEST_REQUEST = 128 << 10
#: Requests under way at once.
_DEPTH = 4
#: How long a disk is read as it is, and how long at least and at most where it is held.
_FREE_S, _LEAST_S, _MOST_S = 0.3, 0.6, 3.0
#: Enough to know a rate to some percent.
_ENOUGH_REQUESTS = 60


class RamDisk:
    """Makes a disk in memory when it is first needed, and removes it. A context manager.

    Args:
        ownership: records the disk before it is made.
        free_bytes: tells how much memory there is for it.
        place: where its folder is made; None takes ``/var/tmp``.
    """

    def __init__(
        self, ownership: Ownership, free_bytes: Callable[[], int], place: Path | None = None
    ) -> None:
        self._ownership, self._free_bytes = ownership, free_bytes
        self._place = place or Path("/var/tmp")  # noqa: S108 - a private folder is made in it
        self._root: Path | None = None
        self._copies: dict[Path, Path] = {}
        self._room_bytes = 0

    @property
    def folder(self) -> Path | None:
        """Where its files are; None while there is none."""
        return self._root / "disk" if self._root else None

    def has_room(self, room_bytes: int) -> bool:
        """Return whether the disk is there, and large enough."""
        return self._root is not None and self._room_bytes >= room_bytes

    def need(self, room_bytes: int) -> Path:
        """Return the folder of a disk with this much room; make it anew, empty, if it is too small.

        Raises:
            MachineError: not root, too little memory, or a tool that is missing.
        """
        if not self.has_room(room_bytes):
            self.off()
            self._make(room_bytes)
        assert self.folder
        return self.folder

    def copy(self, source: Path) -> Path:
        """Copy a folder of files to the disk once, as the caller, for them alone; return the copy.

        Raises:
            MachineError: there is no room for it, or one is no file that the caller may read.
        """
        if source not in self._copies:
            from edgebench.caller_process import CallError, call_as_caller

            assert self.folder
            copy = self.folder / f"files-{len(self._copies)}"
            try:
                # It belongs to the caller.
                make_folder(copy)
                request = {"source": str(source), "copy": str(copy)}
                call_as_caller(_COPY, request, caller_identity(), limit_s=_COPY_LIMIT_S)
            except (OSError, CallError) as error:
                raise MachineError(
                    f"files can't be copied to the disk in memory: {error}",
                    where=str(source),
                    remedy=_SMALLER,
                ) from error
            self._copies[source] = copy
        return self._copies[source]

    def off(self) -> None:
        """Remove the disk and what is on it; swap on it must be off. Safe to call twice."""
        root, self._root = self._root, None
        self._copies.clear()
        self._room_bytes = 0
        if root:
            clear_ram_disk(root)
            self._ownership.release("ram-disk", str(root))

    def _make(self, room_bytes: int) -> None:
        if os.geteuid() != 0:
            remedy = "call edgebench with sudo, or leave disk=ram out"
            raise MachineError("a disk in memory can be made by root only", remedy=remedy)
        size_bytes = int(room_bytes * (1 + _OWN_SHARE)) + _OWN_BYTES
        free = self._free_bytes()
        if free < size_bytes + _SPARE_BYTES:
            raise MachineError(
                f"no memory for a disk of {format_size(size_bytes)} in it: {format_size(free)} "
                f"are free, of which {format_size(_SPARE_BYTES)} stay so",
                remedy=_SMALLER,
            )
        folder = self._place / f"edgebench-ram-disk-{os.urandom(6).hex()}"
        self._ownership.claim("ram-disk", str(folder))
        self._root, self._room_bytes = folder, room_bytes
        make_private_folder(folder, reachable=caller_identity() is not None)
        for name in ("memory", "disk"):
            make_private_folder(folder / name)
        run_tool(
            ["mount", "-t", "ramfs", "-o", "mode=0700", "edgebench", str(folder / "memory")],
            _OTHER_DISK,
        )
        file = folder / "memory" / "disk"
        _fill(file, size_bytes)
        device = run_tool(["losetup", "--find", "--show", str(file)], _OTHER_DISK).strip()
        run_tool(["blockdev", "--setra", _READ_AHEAD_SECTORS, device], _OTHER_DISK)
        run_tool([*_MAKE_FILE_SYSTEM, *_AT_ONCE, device], _OTHER_DISK)
        run_tool(["mount", "-o", "noatime,nosuid,nodev", device, str(folder / "disk")], _OTHER_DISK)
        # From now on the kernel lets the device go as soon as it is unmounted.
        run_tool(["losetup", "--detach", device], _OTHER_DISK)

    def __enter__(self) -> RamDisk:
        return self

    def __exit__(self, *_: object) -> None:
        self.off()


def _fill(file: Path, size_bytes: int) -> None:
    """Take all of its memory now: pages that a trial makes the kernel add would be the trial's."""
    zeros = bytes(MIB)
    with created(file, 0o600) as disk:
        for _ in range(-(-size_bytes // MIB)):
            disk.write(zeros)


def copy_files(request: Mapping[str, str]) -> None:
    """Copy all in the folder ``source`` to the empty folder ``copy``; follows no link in it.

    Raises:
        OSError: something in it is neither a file nor a folder, or can't be read; no room.
    """
    folders = [(Path(request["source"]), Path(request["copy"]))]
    for source, copy in folders:
        for path in sorted(source.iterdir()):
            target = copy / path.name
            if path.is_dir() and not path.is_symlink():
                make_folder(target)
                folders.append((path, target))
                continue
            with open_to_read(path, links=False) as old, created(target, 0o600) as new:
                shutil.copyfileobj(old, new, MIB)
                new.flush()
                # Dirty pages would still be on their way while the first trial is timed.
                os.fsync(new.fileno())


@dataclass(frozen=True)
class ProbeResult:
    """What a disk did: bytes and requests a second."""

    bps: float
    iops: float


def probe(
    parent: ParentCgroup, limit: DiskLimit | None, file: Path, words: list[str]
) -> list[ProbeResult]:
    """Read or write a file in the ways of :mod:`edgebench.cgroups.probes`.

    In a cgroup of its own: what another held before would still wait in the same one.

    Raises:
        CgroupError: the file can't be read or written so, or the disk not held.
    """
    cgroup = parent.create(f"{os.getpid()}-storage")
    try:
        cgroup.hold_disks((limit,) if limit else ())
        with _opened(file) as fd:
            script = str(Path(__file__).with_name("probes.py"))
            command = [sys.executable, "-I", "-S", script, str(fd), *words]
            done = subprocess.run(
                join_command(cgroup, command, None, None),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_PROBE_LIMIT_S,
                check=True,
                pass_fds=[fd],
            )
    except (subprocess.SubprocessError, OSError) as error:
        lines = str(getattr(error, "stderr", None) or error).strip().splitlines()
        raise CgroupError(
            f"the speed of the disk can't be measured: {lines[-1] if lines else error}",
            where=str(file),
            remedy=AS_IS_REMEDY,
        ) from error
    finally:
        cgroup.remove()
    return [ProbeResult(**result) for result in json.loads(done.stdout)]


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[int]:
    """Open the file for its descriptor, with the rights of its folder's owner, or a disk.

    Raises:
        OSError: it is a FIFO, another device, or a link to what that user may not read.
    """
    fd = os.open(file, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if stat.S_ISBLK(os.fstat(fd).st_mode):
            # A swap partition: opened for nothing but its place, and again by the probe.
            yield fd
            return
    finally:
        os.close(fd)
    with open_to_read(file) as opened:
        yield opened.fileno()


@dataclass(frozen=True)
class SpeedProof:
    """One way of reading or writing a disk, as it is and held.

    Args:
        direction: ``read`` or ``write``.
        pattern: ``sequential`` or ``random``.
        request_bytes: the size of a request.
        own: the disk as it is.
        held: the disk held to the declared speed.
        declared_bps: what the declared speed allows such requests.
    """

    direction: str
    pattern: str
    request_bytes: int
    own: ProbeResult
    held: ProbeResult
    declared_bps: float

    @property
    def off(self) -> float:
        """How far the held speed is from the declared one, as a share; 0 where it may be.

        Where the disk by itself is hardly faster, it may be what is slow.
        """
        error = self.held.bps / self.declared_bps - 1
        return abs(error) if self.own.bps >= self.declared_bps * _MARGIN else max(0.0, error)

    def is_slow(self, bps: int | None, iops: int | None) -> bool:
        """Return whether the disk by itself does less than is declared."""
        if self.pattern == "sequential":
            return bps is not None and self.own.bps < bps
        return iops is not None and self.own.iops < iops

    def fault(self, bps: int | None, iops: int | None) -> float:
        """Return 0 for a proof that is good enough for this declared speed, else how bad it is."""
        if self.is_slow(bps, iops):
            return 2 + self.declared_bps / max(1.0, self.own.bps)
        return self.off if self.off > TOLERANCE else 0.0


def prove_storage(
    parent: ParentCgroup, limit: DiskLimit, file: Path, otherwise: str = AS_IS_REMEDY
) -> list[SpeedProof]:
    """Measure the disk as it is and held, each way that is declared. Takes some seconds.

    Args:
        parent: where cgroups are made.
        limit: the disk and its declared speed.
        file: a file on that disk, which is overwritten if a speed of writing is declared.
        otherwise: what to do where that disk can't be held so, for the end of a message.

    Raises:
        CgroupError: the disk is slower than declared, or is not held to within ``TOLERANCE``; says
            what it can do.
    """
    proofs: list[SpeedProof] = []
    for direction in ("read", "write"):
        bps: int | None = getattr(limit.speed, f"{direction}_bps")
        iops: int | None = getattr(limit.speed, f"{direction}_iops")
        if bps is None and iops is None:
            continue
        faults: dict[float, SpeedProof] = {}
        # Others may use the disk at the moment: the best of some attempts counts.
        for _ in range(_ATTEMPTS):
            attempt = _measure(parent, limit, file, direction, bps, iops)
            worst = max(attempt, key=lambda proof: proof.fault(bps, iops))
            if worst.fault(bps, iops) == 0:
                proofs += attempt
                break
            faults.setdefault(worst.fault(bps, iops), worst)
        else:
            raise _error(limit, faults[min(faults)], bps, iops, otherwise)
    return proofs


def _measure(
    parent: ParentCgroup,
    limit: DiskLimit,
    file: Path,
    direction: str,
    bps: int | None,
    iops: int | None,
) -> list[SpeedProof]:
    largest = _LARGEST_REQUEST
    if bps is not None:
        largest = min(largest, bps // _ENOUGH_REQUESTS // _PAGE * _PAGE)
    ways = {"sequential": largest, "random": _PAGE}
    declared: dict[str, float] = {}
    free_words, held_words = [direction], [direction]
    for pattern, size in ways.items():
        rates = [rate * each for rate, each in ((bps, 1), (iops, size)) if rate is not None]
        declared[pattern] = float(min(rates))
        held_s = min(_MOST_S, max(_LEAST_S, _ENOUGH_REQUESTS * size / declared[pattern]))
        free_words.append(f"{pattern}:{size}:{_DEPTH}:{_FREE_S}")
        held_words.append(f"{pattern}:{size}:{_DEPTH}:{held_s}")
    free = probe(parent, None, file, free_words)
    held = probe(parent, limit, file, held_words)
    return [
        SpeedProof(direction, pattern, size, own, limited, declared[pattern])
        for (pattern, size), own, limited in zip(ways.items(), free, held, strict=True)
    ]


def _error(
    limit: DiskLimit, proof: SpeedProof, bps: int | None, iops: int | None, otherwise: str
) -> CgroupError:
    own, verb = proof.own, f"{proof.direction}s"
    if not proof.is_slow(bps, iops):
        return CgroupError(
            f"{limit.name} is not held to the declared speed ({limit.speed.label}): "
            f"{proof.pattern} {verb} should reach {round_speed(proof.declared_bps)} and "
            f"reach {round_speed(proof.held.bps)} ({proof.off:.0%} off); "
            f"by itself {round_speed(own.bps)}",
            where=limit.name,
            remedy=f"end what else uses the disk and try again; or {otherwise}",
        )
    if proof.pattern == "sequential":
        can = f"by itself {limit.name} {verb} {round_speed(own.bps)}"
        lower = f"{proof.direction}={max(1, int(own.bps / _MARGIN / 1e6))}MB/s"
    else:
        can = f"by itself {limit.name} {verb} {own.iops:.0f} times 4 KiB a second"
        lower = f"{proof.direction}_iops={max(10, int(own.iops / _MARGIN))}"
    return CgroupError(
        f"the disk is slower than declared ({limit.speed.label}): {can}",
        where=limit.name,
        remedy=f"declare no more than it can do: {lower}; or {otherwise}",
    )
