"""Networks that run at once, each in its own process, below one limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgebench.errors import ResultsError
from edgebench.slowdown.computed import Room
from edgebench.slowdown.prediction import Predictor, QueriedWorkload, source_of, workload_query

#: Settings that tell workloads of one network apart, with the values that most have.
_APART = {"schedule": "bulk", "loader": "copy"}


@dataclass(frozen=True)
class Part:
    """One of the networks, as it is alone. Sizes in bytes.

    Args:
        network: its name.
        settings: its schedule and loader, as ``bulk, copy``.
        needs_bytes: what it needs.
        steady_bytes: what its steady rounds use of that.
        library_bytes: what it maps of libraries, beside its needs; None: not known.
        room: what of its needs must have a place below the limit or in swap.
    """

    network: str
    settings: str
    needs_bytes: float
    steady_bytes: float
    library_bytes: float | None
    room: Room


@dataclass(frozen=True)
class Together:
    """All of them: needs and steady sets add up, since processes share no weights."""

    parts: tuple[Part, ...]

    @property
    def needs_bytes(self) -> float:
        """What they need at once."""
        return sum(part.needs_bytes for part in self.parts)

    @property
    def steady_bytes(self) -> float:
        """What a steady round of each uses."""
        return sum(part.steady_bytes for part in self.parts)

    @property
    def library_bytes(self) -> float | None:
        """Libraries: the most that one maps is mapped by all, and no limit counts it."""
        return max((p.library_bytes for p in self.parts if p.library_bytes), default=None)

    @property
    def largest(self) -> Part:
        """The one whose steady rounds use most: what to shrink."""
        return max(self.parts, key=lambda part: part.steady_bytes)

    def finishes(self, limit_bytes: float) -> bool | None:
        """Return whether all finish at a limit; None: too near to tell. They share the swap."""
        rooms = [part.room for part in self.parts]
        need_bytes, swap_bytes = sum(r.need_bytes for r in rooms), max(r.swap_bytes for r in rooms)
        return Room(need_bytes, swap_bytes, max(r.margin for r in rooms)).finishes(limit_bytes)

    def excess_bytes(self, limit_bytes: float) -> float:
        """Return what steady rounds use beyond a limit: no less is read again in each."""
        return max(0.0, self.steady_bytes - limit_bytes)

    def to_json(self, limits: Sequence[float]) -> dict[str, Any]:
        """Return plain data for ``json.dumps``."""
        return {
            "networks": [asdict(part) for part in self.parts],
            "needs_bytes": self.needs_bytes,
            "steady_bytes": self.steady_bytes,
            "library_bytes": self.library_bytes,
            "shrink": self.largest.network,
            "at": [
                {
                    "limit_bytes": limit,
                    "finishes": self.finishes(limit),
                    "excess_bytes": self.excess_bytes(limit),
                }
                for limit in limits
            ],
        }


def together(networks: Sequence[str], results: Path, asked: dict[str, Any]) -> Together:
    """Return what networks need at once; of a network's workloads the most usual one counts.

    Raises:
        EdgebenchError: as :func:`source_of`; nothing tells what one of them needs or uses.
    """
    parts = []
    for network in networks:
        query = workload_query(network, **asked["settings"])
        source = source_of(results, query, asked["device"], asked["swap_kind"])
        subject, predictor = min(source.workloads(), key=_unlikeness)
        needs_bytes, room = predictor.room(subject)
        steady_bytes = predictor.steady_bytes(subject)
        if needs_bytes is None or room is None or steady_bytes is None:
            raise ResultsError(
                f"nothing tells what steady rounds of {network} use",
                remedy="edgebench calibrate --swap 2G, or measure all at once: edgebench measure "
                "-- sh -c 'python3 a.py & python3 b.py & wait'",
            )
        trials = source.results.trials
        own = trials.loc[trials["workload"] == subject.workload, "library_bytes"].dropna()
        libraries = float(own.median()) if len(own) else None
        settings = ", ".join(str(subject.settings.get(key)) for key in _APART)
        parts.append(Part(network, settings, needs_bytes, steady_bytes, libraries, room))
    return Together(tuple(parts))


def _unlikeness(workload: tuple[QueriedWorkload, Predictor]) -> int:
    return sum(workload[0].settings.get(key) != usual for key, usual in _APART.items())
