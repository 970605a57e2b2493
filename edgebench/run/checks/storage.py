"""Check of storage: which speeds of swap and weights this machine can emulate."""

from __future__ import annotations

import os
from pathlib import Path

from edgebench.boards.storage import StorageSpeed, format_speed
from edgebench.errors import EdgebenchError
from edgebench.measures.machine.disks import SWAP_FILES, whole_disk
from edgebench.measures.machine.system_files import UnreadableError
from edgebench.run.checks.base import CheckTarget, Observation, registered_check
from edgebench.units import format_duration

#: Slow enough for any disk that a board has, fast enough to be measured soon.
_TRIED = StorageSpeed(read_bps=10_000_000)
_SHOWN_BPS = 5_000_000


@registered_check("storage")
def storage_check(target: CheckTarget) -> Observation:
    """Whether the disk of swap files can be held to a speed, and how fast it is by itself."""
    from edgebench.cgroups.disk_limits import DiskLimit
    from edgebench.cgroups.storage_check import prove_storage
    from edgebench.run.proof_file import proof_file

    parent = target.parent
    if parent is None or parent.ownership is None:
        raise UnreadableError("can't be tried without a cgroup")
    if os.geteuid() != 0:
        raise UnreadableError("only root can hold storage to a speed")
    disk = whole_disk(target.machine, Path(SWAP_FILES))
    limit = DiskLimit(disk.number, disk.name, _TRIED)
    try:
        own_file = parent.ownership, disk.number, SWAP_FILES, [SWAP_FILES]
        with proof_file(target.machine, *own_file, writes=False) as file:
            seen = prove_storage(parent, limit, file)
    except EdgebenchError as error:
        raise UnreadableError(f"{disk.name} can't be held to a speed: {error.what}") from error
    own = {proof.pattern: proof.own for proof in seen if proof.depth > 1}
    most = format_speed(max(1, int(own["sequential"].bps // _SHOWN_BPS)) * _SHOWN_BPS)
    latencies = [proof.own.latency_s for proof in seen if proof.depth == 1]
    alone = format_duration(latencies[0]) if latencies and latencies[0] else "unknown time"
    return Observation(
        f"reads of {disk.name} can be held, to {most} and {own['random'].iops:.0f} requests "
        f"of 4 KiB a second at most; one such request takes {alone}"
    )
