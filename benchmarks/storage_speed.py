"""How exactly a disk is held to declared speeds, and what that does to others on the machine.

``python benchmarks/storage_speed.py [REPEATS]``, as root. For each speed: held ÷ declared, of
so many proofs (:mod:`edgebench.cgroups.storage_check`), in sequence and at random; and the speed
of a reader outside the cgroup, beside a held reader ÷ alone.

``python benchmarks/storage_speed.py [REPEATS] --ram`` holds the disk in memory of storage
``disk=ram``; the reader outside the cgroup reads the machine's own disk then.

``python benchmarks/storage_speed.py [REPEATS] --overwrite DEVICE`` instead holds reads and writes
of a disk that holds nothing, to speeds that an emulated machine's disk reaches; no reader is
outside. In scripts/vm that disk is /dev/nvme0n1, once its swap is off.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import report

from edgebench.boards.storage import StorageSpeed
from edgebench.cgroups import storage_probe
from edgebench.cgroups.disk_limits import DiskLimit
from edgebench.cgroups.join import join_command
from edgebench.cgroups.leftovers import Ownership, clear_leftovers
from edgebench.cgroups.parent import ParentCgroup, find_parent
from edgebench.cgroups.ram_disk import RamDisk
from edgebench.cgroups.storage_check import prove_storage
from edgebench.errors import CgroupError
from edgebench.measures.machine.disks import SWAP_FILES, whole_disk
from edgebench.measures.machine.system_files import SystemFiles, usable_ram_bytes
from edgebench.run.proof_file import proof_file

#: MB/s; those of an emulated disk are bytes a second.
SPEEDS = (20, 50, 100, 200, 500, 1000)
_LOW_SPEEDS = (2_000_000, 5_000_000, 10_000_000)
WAYS, PATTERNS = ("read", "write"), ("sequential", "random")
#: How long others read: long enough for the noise of a virtual disk.
_BESIDE_S = 5.0


def main(repeats: int, *, ram: bool) -> None:
    """Measure all speeds of reading and write the rows."""
    clear_leftovers()
    free = partial(usable_ram_bytes, SystemFiles(), None)
    with Ownership() as ownership, RamDisk(ownership, free) as ram_disk:
        parent = find_parent(ownership)
        folder = ram_disk.need(0) if ram else SWAP_FILES
        disk = whole_disk(SystemFiles(), folder)
        with _file_on(ownership, folder) as file, _file_on(ownership, SWAP_FILES) as other:
            made = [
                _row(parent, DiskLimit(disk.number, disk.name, speed), file, other, repeats)
                for speed in (StorageSpeed(read_bps=number * 10**6) for number in SPEEDS)
            ]
    name = "the disk in memory" if ram else disk.name
    says = f"Reads of {name} held to a speed, cgroup version {parent.version}: held ÷ declared."
    header = ["declared", "in sequence", "at random", "others, beside a held reader ÷ alone"]
    rows = [[row["declared"], *_cells(row)] for row in made]
    stem = "storage_speed_ram" if ram else "storage_speed"
    report.write(stem, says, header, rows, {"disk": vars(disk), "rows": made})


@contextmanager
def _file_on(ownership: Ownership, folder: Path) -> Iterator[Path]:
    number = whole_disk(SystemFiles(), folder).number
    with proof_file(SystemFiles(), ownership, number, folder, [folder], writes=False) as file:
        yield file


def both_ways(repeats: int, device: Path) -> None:
    """The same of reading and writing a device, whose contents are lost."""
    clear_leftovers()
    status = device.stat()
    number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    with Ownership() as ownership:
        parent = find_parent(ownership)
        speeds = (StorageSpeed(read_bps=n, write_bps=n) for n in _LOW_SPEEDS)
        made = [
            _both_ways_row(parent, DiskLimit(number, device.name, speed), device, repeats)
            for speed in speeds
        ]
    says = f"Reads and writes held, cgroup version {parent.version}: held ÷ declared."
    header = ["declared", *(f"{way}, {pattern}" for way in WAYS for pattern in PATTERNS)]
    rows = [[row["declared"], *_both_ways_cells(row)] for row in made]
    report.write("storage_speed_both_ways", says, header, rows, {"rows": made})


def _both_ways_row(
    parent: ParentCgroup, limit: DiskLimit, file: Path, repeats: int
) -> dict[str, Any]:
    try:
        proofs = [proof for _ in range(repeats) for proof in prove_storage(parent, limit, file)]
    except CgroupError as error:
        return {"declared": limit.speed.label, "refused": error.what}
    ratios = {
        f"{way} {pattern}": [
            proof.held.bps / proof.declared_bps
            for proof in proofs
            if (proof.direction, proof.pattern) == (way, pattern) and proof.declared_bps
        ]
        for way in WAYS
        for pattern in PATTERNS
    }
    return {"declared": limit.speed.label, "ratios": ratios}


def _both_ways_cells(row: dict[str, Any]) -> list[str]:
    if "refused" in row:
        return [row["refused"], "", "", ""]
    return [_ratio_text(ratios) for ratios in row["ratios"].values()]


def _ratio_text(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


def _cells(row: dict[str, Any]) -> list[str]:
    if "refused" in row:
        return [row["refused"], "", ""]
    ratios = row["sequential_ratios"], row["random_ratios"]
    medians = [_ratio_text(of) for of in ratios]
    if not row["random_binding"]:
        medians[1] += ": the disk by itself is slower"
    others = statistics.median(row["others_beside_bps"]) / statistics.median(
        row["others_alone_bps"]
    )
    return [*medians, f"{others:.3f}"]


def _row(
    parent: ParentCgroup, limit: DiskLimit, file: Path, other: Path, repeats: int
) -> dict[str, Any]:
    """One speed's; ``other`` is what the reader outside reads."""
    row: dict[str, Any] = {"declared": limit.speed.label}
    try:
        proofs = [proof for _ in range(repeats) for proof in prove_storage(parent, limit, file)]
    except CgroupError as error:
        return {**row, "refused": error.what}
    for pattern in PATTERNS:
        of = [p for p in proofs if p.pattern == pattern and p.declared_bps]
        row[f"{pattern}_ratios"] = [p.held.bps / (p.declared_bps or 1) for p in of]
        row[f"{pattern}_own_bps"] = [p.own.bps for p in of]
        row[f"{pattern}_binding"] = all(p.binding for p in of)
    alone, beside = [], []
    # In turn, so that drift hits both alike.
    for _ in range(repeats):
        alone.append(_read(other))
        with _held_reader(parent, limit, file):
            beside.append(_read(other))
    return {**row, "others_alone_bps": alone, "others_beside_bps": beside}


def _words(file: Path, seconds: float) -> list[str]:
    way = f"sequential:{128 << 10}:4:{seconds}"
    return [sys.executable, "-I", "-S", str(storage_probe.__file__), str(file), "read", way]


def _read(file: Path) -> float:
    """Bytes a second of a reader that nothing holds."""
    done = subprocess.run(_words(file, _BESIDE_S), capture_output=True, check=True)
    bps: float = json.loads(done.stdout)[0]["bps"]
    return bps


@contextmanager
def _held_reader(parent: ParentCgroup, limit: DiskLimit, file: Path) -> Iterator[None]:
    """A reader in a cgroup that is held, for as long as the block takes."""
    cgroup = parent.create(f"{os.getpid()}-beside")
    try:
        cgroup.hold_disks((limit,))
        command = join_command(cgroup, _words(file, 3600.0), None, None)
        reader = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            yield
        finally:
            cgroup.kill()
            reader.wait()
    finally:
        cgroup.remove()


if __name__ == "__main__":
    words = sys.argv[1:]
    times = int(words[0]) if words[:1] and words[0].isdigit() else 5
    if words[-2:-1] == ["--overwrite"]:
        both_ways(times, Path(words[-1]))
    else:
        main(times, ram="--ram" in words)
