"""What the passes of scans measured, as data, and how blocks of trials hold them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from edgebench.boards.storage import AS_IS

#: The least and the most that is scanned, against what the limit leaves.
FITS, WIDE = 0.75, 2.0


@dataclass(frozen=True)
class Scan:
    """One pass over anonymous memory or a file, in one trial.

    Attributes:
        trial: the trial's place in the plan.
        block: which repeat of every point it belongs to.
        of: ``anon`` or ``file``.
        planned_share: what was scanned against what the limit was thought to leave.
        what: the pass, a name of :data:`edgebench.workloads.scan.PASSES`.
        number: which pass of its kind in its trial it is, from 0.
        size_bytes: what was scanned; ``resident_bytes`` of it were in RAM when the pass had ended,
            which is what the limit really leaves.
        touched_bytes: what the pass touched; less than all if in an order by chance.
        seconds: wall time of the touching alone.
        in_bytes, out_bytes: what came from swap or the file and what went to swap meanwhile.
        major_faults: the process's.
        requests: reads of the disk meanwhile, merged ones counted singly; None: on no disk, or
            older results.
        storage: ``as-is``, or the declared speed that the disk was held to.
    """

    trial: str
    block: int
    of: str
    planned_share: float
    what: str
    number: int
    size_bytes: int
    resident_bytes: int
    touched_bytes: int
    seconds: float
    in_bytes: int
    out_bytes: int
    major_faults: int
    requests: int | None = None
    storage: str = AS_IS

    @property
    def share(self) -> float:
        """What was scanned against what the limit leaves to it; as planned where all of it fits."""
        if self.resident_bytes >= self.size_bytes:
            return min(self.planned_share, 1.0)
        return self.size_bytes / max(self.resident_bytes, 1)

    @property
    def miss_share(self) -> float:
        """What came back, as a share of what was touched."""
        return self.in_bytes / self.touched_bytes

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Scan:
        """A stored scan; keys this version does not know are left out."""
        later = ("requests", "storage")
        names = [f.name for f in fields(cls)]
        return cls(**{name: data[name] for name in names if name in data or name not in later})


@dataclass(frozen=True)
class Block:
    """One repeat of every point: its scans in the order they were made."""

    scans: tuple[Scan, ...]

    def passes(self, of: str, planned_share: float, what: str | None = None) -> list[Scan]:
        """The passes of one point, of one kind or of all."""
        return [
            scan
            for scan in self.scans
            if (scan.of, scan.planned_share) == (of, planned_share) and what in (None, scan.what)
        ]

    def sizes(self, of: str) -> int:
        """How many sizes were scanned; some blocks have only the smallest and the largest."""
        return len({scan.planned_share for scan in self.scans if scan.of == of})

    def cyclic(self, of: str) -> list[Scan]:
        """Passes in order that follow one in order: a cyclic scan that has settled.

        The first finds what the fill left (dirty pages, which go out), or the end of the file.
        """
        return [s for s in self.scans if s.of == of and s.what == "read" and s.number > 0]

    def settled(self, of: str, planned_share: float) -> list[Scan]:
        """The cyclic scan's settled passes at one point."""
        return [scan for scan in self.cyclic(of) if scan.planned_share == planned_share]


def blocks_of(scans: Iterable[Scan]) -> list[Block]:
    """The scans of the storage as it is by their block, in its order."""
    blocks: dict[int, list[Scan]] = {}
    for scan in scans:
        if scan.storage == AS_IS:
            blocks.setdefault(scan.block, []).append(scan)
    return [Block(tuple(blocks[number])) for number in sorted(blocks)]
