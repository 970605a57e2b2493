"""How fast a disk is, and the proof, before anything is measured, that it is held to its speed.

The disk is read (and written, where that is declared) past the page cache from inside a cgroup:
first as it is, which tells what it can do, then held.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgebench.boards.storage import AS_IS_REMEDY, StorageSpeed, round_speed
from edgebench.cgroups import storage_probe
from edgebench.cgroups.disk_limits import DiskLimit
from edgebench.cgroups.join import join_command
from edgebench.cgroups.parent import ParentCgroup
from edgebench.errors import CgroupError
from edgebench.safe_folders import NO_LINK
from edgebench.safe_reading import open_to_read

_PATIENCE_S = 60.0
#: In sequence and anywhere with four requests under way, and one request at a time.
_READS = ("sequential:131072:4", "random:4096:4", "random:4096:1")
#: How far a held disk's speed may be from the declared one, as a share.
TOLERANCE = 0.1
#: Where the disk by itself is not faster than this times the declared speed, only more than the
#: declared speed is a fault: the disk may be what is slow.
_MARGIN = 1.25
_ATTEMPTS = 3
_PAGE = 4096
_LARGEST_REQUEST = 128 << 10
#: Requests under way at once; one at a time tells how long a page fault waits.
_DEPTH = 4
_LEAST_S, _MOST_S, _LATENCY_S = 0.6, 3.0, 0.3
#: So many requests tell a rate to some percent.
_ENOUGH_REQUESTS = 60


@dataclass(frozen=True)
class ProbeResult:
    """What a disk did: bytes and requests a second, and the median time of a request."""

    bps: float
    iops: float
    latency_s: float | None


@dataclass(frozen=True)
class DiskSpeed:
    """A disk as it is: in sequence and anywhere with four requests under way, and one at a time."""

    sequential: ProbeResult
    random: ProbeResult
    alone: ProbeResult


def disk_speed(parent: ParentCgroup, file: Path, seconds: float) -> DiskSpeed:
    """Read a file past the page cache, each of the three ways for so long.

    Raises:
        CgroupError: the file can't be read so.
    """
    return DiskSpeed(*probe(parent, None, file, ["read", *(f"{way}:{seconds}" for way in _READS)]))


def probe(
    parent: ParentCgroup, limit: DiskLimit | None, file: Path, words: list[str]
) -> list[ProbeResult]:
    """Read or write a file in the ways of :mod:`edgebench.cgroups.storage_probe`.

    In a cgroup of its own: what another held before would still wait in the same one.

    Raises:
        CgroupError: the file can't be read or written so, or the disk not held.
    """
    cgroup = parent.create(f"{os.getpid()}-storage")
    try:
        cgroup.hold_disks((limit,) if limit else ())
        with _opened(file) as fd:
            command = [sys.executable, "-I", "-S", str(storage_probe.__file__), str(fd), *words]
            done = subprocess.run(
                join_command(cgroup, command, None, None),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_PATIENCE_S,
                check=True,
                pass_fds=[fd],
            )
    except (subprocess.SubprocessError, OSError) as error:
        told = str(getattr(error, "stderr", None) or error).strip().splitlines()
        raise CgroupError(
            f"the speed of the disk can't be measured: {told[-1] if told else error}",
            where=str(file),
            remedy=AS_IS_REMEDY,
        ) from error
    finally:
        cgroup.remove()
    return [ProbeResult(**result) for result in json.loads(done.stdout)]


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[int]:
    """A descriptor of the file, opened with the rights of its folder's owner, or of a disk.

    Raises:
        OSError: it is a FIFO, another device, or a link to what that user may not read.
    """
    fd = os.open(file, os.O_PATH | NO_LINK)
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
        request_bytes, depth: the size of a request, and how many are under way at once.
        own: the disk as it is.
        held: the disk held to the declared speed.
        declared_bps: what the declared speed allows such requests; None: any.
    """

    direction: str
    pattern: str
    request_bytes: int
    depth: int
    own: ProbeResult
    held: ProbeResult
    declared_bps: float | None

    @property
    def binding(self) -> bool:
        """Whether the disk by itself is clearly faster, so that what holds it is measured."""
        return self.declared_bps is not None and self.own.bps >= self.declared_bps * _MARGIN

    @property
    def off(self) -> float:
        """How far the held speed is from the declared one, as a share; 0 where it may be."""
        if self.declared_bps is None:
            return 0.0
        error = self.held.bps / self.declared_bps - 1
        return abs(error) if self.binding else max(0.0, error)


@dataclass(frozen=True)
class _Way:
    """One way to be measured; ``declared_bps`` None: it may reach any speed."""

    pattern: str
    request_bytes: int
    depth: int
    declared_bps: float | None

    def words(self, held: bool) -> str:
        """For the probe."""
        seconds = _LATENCY_S
        if held and self.declared_bps is not None:
            enough_s = _ENOUGH_REQUESTS * self.request_bytes / self.declared_bps
            seconds = min(_MOST_S, max(_LEAST_S, enough_s))
        return f"{self.pattern}:{self.request_bytes}:{self.depth}:{seconds}"


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
    directions = ("read", "write")
    where = parent, limit, file
    return [proof for way in directions for proof in _prove(*where, way, otherwise)]


def _prove(
    parent: ParentCgroup, limit: DiskLimit, file: Path, direction: str, otherwise: str
) -> list[SpeedProof]:
    """The best of some attempts: others may use the disk at the moment."""
    bps, iops = _declared(limit.speed, direction)
    if bps is None and iops is None:
        return []
    found: list[list[SpeedProof]] = []
    for _ in range(_ATTEMPTS):
        found.append(_measured(parent, limit, file, direction))
        if all(_fault(proof, bps, iops) == 0 for proof in found[-1]):
            return found[-1]
    best = min(found, key=lambda proofs: max(_fault(proof, bps, iops) for proof in proofs))
    worst = max(best, key=lambda proof: _fault(proof, bps, iops))
    raise (_slow if _is_slow(worst, bps, iops) else _off)(limit, worst, otherwise)


def _measured(
    parent: ParentCgroup, limit: DiskLimit, file: Path, direction: str
) -> list[SpeedProof]:
    ways = _ways(*_declared(limit.speed, direction))
    own = probe(parent, None, file, [direction, *(way.words(held=False) for way in ways)])
    held = probe(parent, limit, file, [direction, *(way.words(held=True) for way in ways)])
    return [
        SpeedProof(direction, w.pattern, w.request_bytes, w.depth, free, limited, w.declared_bps)
        for w, free, limited in zip(ways, own, held, strict=True)
    ]


def _declared(speed: StorageSpeed, direction: str) -> tuple[int | None, int | None]:
    if direction == "read":
        return speed.read_bps, speed.read_iops
    return speed.write_bps, speed.write_iops


def _ways(bps: int | None, iops: int | None) -> list[_Way]:
    request = _LARGEST_REQUEST
    if bps is not None:
        request = min(request, bps // _ENOUGH_REQUESTS // _PAGE * _PAGE)

    def allowed(request_bytes: int) -> float:
        each = [float(bps)] if bps is not None else []
        return min([*each, float(iops * request_bytes)] if iops is not None else each)

    return [
        _Way("sequential", request, _DEPTH, allowed(request)),
        _Way("random", _PAGE, _DEPTH, allowed(_PAGE)),
        # For its latency alone: one request at a time is slower than most disks can be.
        _Way("random", _PAGE, 1, None),
    ]


def _fault(proof: SpeedProof, bps: int | None, iops: int | None) -> float:
    """0 for a proof that will do; the worse, the more."""
    if _is_slow(proof, bps, iops):
        return 2 + (proof.declared_bps or 0.0) / max(1.0, proof.own.bps)
    return proof.off if proof.off > TOLERANCE else 0.0


def _is_slow(proof: SpeedProof, bps: int | None, iops: int | None) -> bool:
    """Whether the disk by itself does less than is declared."""
    if proof.declared_bps is None:
        return False
    if proof.pattern == "sequential":
        return bps is not None and proof.own.bps < bps
    return iops is not None and proof.own.iops < iops


def _slow(limit: DiskLimit, proof: SpeedProof, otherwise: str) -> CgroupError:
    own, verb = proof.own, f"{proof.direction}s"
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


def _off(limit: DiskLimit, proof: SpeedProof, otherwise: str) -> CgroupError:
    declared, held = proof.declared_bps or 0.0, proof.held
    return CgroupError(
        f"{limit.name} is not held to the declared speed ({limit.speed.label}): {proof.pattern} "
        f"{proof.direction}s should reach {round_speed(declared)} and reach "
        f"{round_speed(held.bps)} ({proof.off:.0%} off); by itself {round_speed(proof.own.bps)}",
        where=limit.name,
        remedy=f"end what else uses the disk and try again; or {otherwise}",
    )
