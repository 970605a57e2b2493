"""What a search for the least limits found."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from edgebench.need import Need
from edgebench.results.unmeasured import Unmeasured
from edgebench.run.search import LimitBracket, TriedLimit, differs
from edgebench.text import shortened
from edgebench.units import format_size

#: Trials that finish with less than this share of the need refute it.
_CLEARLY_LESS = 0.9


@dataclass(frozen=True)
class Minimum:
    """What the search found, and what it took.

    Args:
        name: of the network, or the command.
        folder: the sweep that has its trials.
        demand_bytes: the most that an unlimited trial needed.
        demand_least_bytes: the least.
        unlimited_s: the time of an unlimited trial, or of its phase; None: not known.
        viable: the least limit at which trials finish.
        given: the least limit at which they are not slower either, than was asked for or usual.
        fast: the least limit at which the slowdown is at most ``slowdown``; None: not asked for.
        trials: how many there were, unlimited ones too.
        total_s: what all trials took.
        tried: each limit that was tried.
        slowdown: the factor that was asked for, or that the throughput comes to.
        throughput: the least per second that was asked for; None: a slowdown was, or nothing.
        unit: what the throughput counts; empty where nobody said it.
        unlimited_per_s: the throughput of an unlimited trial; None: not told from its output.
        stop_after_s: when a program that never ends was stopped; None: it ends by itself.
        later_start_s: how much later its first round ends at the least limit of ``fast`` than
            unlimited, counted from the trial's beginning, where its trials have further rounds;
            None: they don't, or it was not asked for.
        later_start_trials: how many trials at that limit say so.
        size_bytes: the only limit that was tried, to say whether it is enough; None: a search.
        demands_bytes: what each unlimited trial needed, in the order of the trials.
        unmeasured: what its trials without a limit leave open.
        finished: whether all questions were answered; False: it was interrupted or out of time.
        undroppable_bytes: the part of the demand that only swap can hold; the rest are files that
            are read again when dropped. None: not known.
        elsewhere_bytes: files in the demand that stayed charged to another cgroup, so that no limit
            counted them.
        swap_ram_bytes: the most that its swap took of the RAM of a limit, in zram or zswap;
            None: its swap lies on a disk.
        swap_kind: of the trials.
        library_bytes: libraries that it maps, which no limit counted either; None: not known.
    """

    name: str
    folder: Path
    demand_bytes: int
    demand_least_bytes: int
    unlimited_s: float | None
    viable: LimitBracket
    given: LimitBracket
    fast: LimitBracket | None
    trials: int
    total_s: float
    tried: tuple[TriedLimit, ...] = ()
    slowdown: float | None = None
    throughput: float | None = None
    unit: str = ""
    unlimited_per_s: float | None = None
    stop_after_s: float | None = None
    later_start_s: float | None = None
    later_start_trials: int = 0
    size_bytes: int | None = None
    demands_bytes: tuple[int, ...] = ()
    unmeasured: Unmeasured = field(default_factory=Unmeasured)
    finished: bool = True
    undroppable_bytes: int | None = None
    elsewhere_bytes: int = 0
    library_bytes: int | None = None
    swap_ram_bytes: int | None = None
    swap_kind: str = "none"

    @property
    def fits(self) -> bool | None:
        """Whether the one limit is enough; None where the search was for the least one."""
        if self.size_bytes is None or self.unmeasured.growth:
            return None
        return (self.viable if self.fast is None else self.fast).good is not None

    @property
    def is_first_different(self) -> bool:
        """Whether only the first unlimited trial had another demand than the others."""
        later = self.demands_bytes[1:]
        if len(later) < 2 or not differs(self.demand_least_bytes, self.demand_bytes):
            return False
        return not differs(min(later), max(later))

    @property
    def give(self) -> TriedLimit | None:
        """The limit to give: all its trials finished, no slower than allowed; None: none did.

        Where trials under limits found less than a first run does, the limit is at least the need.
        """
        if self.unmeasured.growth or self.given.good is None:
            return None
        if not (self.is_first_different or self.need.has_much_elsewhere):
            return self.given.good
        least = self.given.good.limit_bytes
        fine = [
            one
            for one in self.tried
            if one.limit_bytes >= max(least, self.demand_bytes) and one.outcome == "ok"
        ]
        return min(fine, key=lambda one: one.limit_bytes, default=None)

    @property
    def finishes_with_bytes(self) -> float | None:
        """The limit to give, where trials refute the need: it is clearly less, without swap."""
        if self.give is None or self.swap_kind != "none":
            return None
        size = self.give.limit_bytes
        return size if size < _CLEARLY_LESS * self.demand_bytes else None

    @property
    def failed_above_bytes(self) -> float | None:
        """The largest limit above the need at which a trial did not finish; None: there is none."""
        lost = (one.limit_bytes for one in self.tried if one.outcome not in ("ok", "timeout"))
        largest = max(lost, default=0.0)
        return largest if differs(self.demand_bytes, largest) else None

    def __repr__(self) -> str:
        """What it needs, and what to give it; its fields are in ``vars(found)``."""
        give = format_size(self.give.limit_bytes) if self.give else "?"
        needs = format_size(self.demand_bytes)
        return f"<Minimum: {shortened(self.name)} needs {needs}, give {give}>"

    @property
    def need(self) -> Need:
        """All that it needs in its parts: what runs without a limit used at most."""
        return Need(self.demand_bytes, self.undroppable_bytes, self.elsewhere_bytes)
