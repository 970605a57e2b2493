"""How fast a disk is, measured past the page cache from inside a cgroup."""

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

from edgebench.cgroups import storage_probe
from edgebench.cgroups.disk_limits import DiskLimit
from edgebench.cgroups.join import join_command
from edgebench.cgroups.parent import ParentCgroup
from edgebench.errors import CgroupError
from edgebench.safe_folders import NO_LINK
from edgebench.safe_reading import open_to_read
from edgebench.storage_speed import AS_IS_REMEDY

_PATIENCE_S = 60.0
#: In sequence and anywhere with four requests under way, and one request at a time.
_READS = ("sequential:131072:4", "random:4096:4", "random:4096:1")


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
