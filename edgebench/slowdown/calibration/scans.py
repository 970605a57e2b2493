"""What one pass of a scan measured, as data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Scan:
    """One pass over a buffer or a mapped file, in one trial.

    Attributes:
        trial: the trial's place in the plan.
        block: which repeat of every point it belongs to.
        point: what the trial scanned, as ``anon-1.25``.
        what: the pass: ``fill``, ``read``, ``write``, ``random``, …
        number: which pass of its kind it is, from 0.
        size_bytes: the buffer; ``resident_bytes`` of it were in RAM when the pass had ended, which
            is what the limit leaves to it.
        touched_bytes: what the pass touched; less than the buffer if in random order.
        seconds: wall time of the touching alone; ``cpu_s`` of it was the process's own.
        in_bytes, out_bytes: what was read from and written to the swap or the disk meanwhile.
        major_faults, minor_faults: the process's.
    """

    trial: str
    block: int
    point: str
    what: str
    number: int
    size_bytes: int
    resident_bytes: int
    touched_bytes: int
    seconds: float
    cpu_s: float
    in_bytes: int
    out_bytes: int
    major_faults: int
    minor_faults: int

    @property
    def share(self) -> float:
        """Buffer against what the limit leaves to it."""
        return self.size_bytes / self.resident_bytes

    @property
    def miss_share(self) -> float:
        """What was read back, as a share of what was touched."""
        return self.in_bytes / self.touched_bytes

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``json.dumps``."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Scan:
        """The scan of :meth:`to_json`; keys this version does not know are left out."""
        return cls(**{f.name: data[f.name] for f in fields(cls)})
