"""What a search for the least limits found."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from edgebench.need import Need
from edgebench.results.unmeasured import Unmeasured
from edgebench.run.reserve import Reserve, is_slow, reserve_for
from edgebench.run.search import LimitBracket, TriedLimit, differs, is_killed_above
from edgebench.text import shortened
from edgebench.words.minimum import minimum_sentence


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
        library_bytes: libraries that it maps, which no limit counted either; None: not known.
    """

    name: str
    folder: Path
    demand_bytes: int
    demand_least_bytes: int
    unlimited_s: float | None
    viable: LimitBracket
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

    @property
    def fits(self) -> bool | None:
        """Whether the one limit is enough; None where the search was for the least one."""
        if self.size_bytes is None or self.unmeasured.growth:
            return None
        return (self.viable if self.fast is None else self.fast).good is not None

    @property
    def has_varying_demand(self) -> bool:
        """Whether runs did not all need the same, those killed above the demand among them."""
        return differs(self.demand_least_bytes, self.demand_most_bytes)

    @property
    def demand_most_bytes(self) -> float:
        """The most that a run needed: the demand, or more, where only there none was killed."""
        bad = self.viable.bad
        if bad and is_killed_above(bad, self.demand_bytes):
            return max(self.needed_bytes, bad.limit_bytes)
        return self.demand_bytes

    @property
    def is_first_different(self) -> bool:
        """Whether only the first unlimited trial had another demand than the others."""
        later = self.demands_bytes[1:]
        if len(later) < 2 or not differs(self.demand_least_bytes, self.demand_bytes):
            return False
        return not differs(min(later), max(later))

    @cached_property
    def reserve(self) -> Reserve | None:
        """How much memory to give it; None where no need can be told."""
        if self.unmeasured.growth:
            return None
        demands = self.demands_bytes or (self.demand_least_bytes, self.demand_bytes)
        factor = self.slowdown if self.fast is not None else None
        ends = (
            end for found in (self.viable, self.fast) if found for end in (found.good, found.bad)
        )
        tried = {one.limit_bytes: one for one in (*self.tried, *ends) if one}
        return reserve_for(
            list(tried.values()),
            demands,
            is_proved=not self.is_first_different and not self.need.has_much_elsewhere,
            factor=factor,
            unlimited_s=self.unlimited_s,
        )

    @property
    def slowed(self) -> tuple[TriedLimit, ...]:
        """The limits at which it finished, but slowly, though nobody asked; the widest first."""
        if self.fast is not None:
            return ()
        slow = (one for one in self.tried if is_slow(one, self.unlimited_s))
        return tuple(sorted(slow, key=lambda one: -one.limit_bytes))

    @property
    def sentence(self) -> str:
        """``needs 412 MiB; takes 2 times as long below 300 MiB; killed below 180 MiB (…)``."""
        return minimum_sentence(self)

    def __repr__(self) -> str:
        """The answer; its fields are in ``vars(found)``."""
        return f"<Minimum: {shortened(self.name)} {self.sentence}>"

    @property
    def need(self) -> Need:
        """All that it needs, as :attr:`needed_bytes`, in its parts."""
        more, held = self.needed_bytes - self.demand_bytes, self.undroppable_bytes
        undroppable = None if held is None else held + more
        return Need(self.needed_bytes, undroppable, self.elsewhere_bytes)

    @property
    def needed_bytes(self) -> float:
        """The demand; or a little more, if only there no trial is killed."""
        good, bad = self.viable.good, self.viable.bad
        if good and bad and bad.outcome == "oom-killed":
            return max(good.limit_bytes, self.demand_bytes)
        return self.demand_bytes
