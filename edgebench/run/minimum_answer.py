"""What a search for the least limits found, and the sentence that says it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgebench.run.search import LimitBracket, TriedLimit, differs
from edgebench.text import shortened
from edgebench.throughput import per_second_words
from edgebench.units import brief_size, format_duration, format_times, times_as_long

#: From this share of the demand on, a limit is the demand, as well as it is known.
_ABOUT = 0.97


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
        finished: whether all questions were answered; False: it was interrupted or out of time.
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
    finished: bool = True

    @property
    def fits(self) -> bool | None:
        """Whether the one limit is enough; None where the search was for the least one."""
        if self.size_bytes is None:
            return None
        return (self.viable if self.fast is None else self.fast).good is not None

    @property
    def has_varying_demand(self) -> bool:
        """Whether the unlimited trials did not all need the same."""
        return differs(self.demand_least_bytes, self.demand_bytes)

    @property
    def is_first_different(self) -> bool:
        """Whether only the first unlimited trial had another demand than the others."""
        later = self.demands_bytes[1:]
        if len(later) < 2 or not self.has_varying_demand:
            return False
        return not differs(min(later), max(later))

    @property
    def sentence(self) -> str:
        """``needs 412 MiB; takes 2 times as long below 300 MiB; killed below 180 MiB (…)``."""
        parts = [self._demand_words()]
        if self.size_bytes is not None:
            parts.insert(0, self._fits_words())
        elif not self.tried:
            parts.append("no limit was tried")
        else:
            parts += [part for part in (*self._slow_parts(), self._end_words()) if part]
        trials = "1 trial" if self.trials == 1 else f"{self.trials} trials"
        return f"{'; '.join(parts)} ({trials}, {_seconds(self.total_s)})"

    def __repr__(self) -> str:
        """The answer; its fields are in ``vars(found)``."""
        return f"<Minimum: {shortened(self.name)} {self.sentence}>"

    def _repr_html_(self) -> str:
        """As a notebook shows it: the sentence, and each limit that was tried."""
        from html import escape

        titles = ("limit", "trials", "outcome", "slowdown")
        rows = [
            (brief_size(one.limit_bytes), str(one.trials), one.outcome, _factor(one.slowdown))
            for one in sorted(self.tried, key=lambda one: -one.limit_bytes)
        ]
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
        )
        head = "".join(f"<th>{title}</th>" for title in titles)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"<p><b>{escape(self.name)} {escape(self.sentence)}</b></p>{table if rows else ''}"

    def _demand_words(self) -> str:
        """The demand; where it varies, why and what to reserve."""
        if not self.has_varying_demand:
            return f"needs {brief_size(self.needed_bytes)}"
        reserve = f"reserve {brief_size(self.needed_bytes)}"
        if self.is_first_different:
            first, later = (
                brief_size(self.demands_bytes[0]),
                brief_size(max(self.demands_bytes[1:])),
            )
            return (
                f"needed {first} in its first run and {later} in later ones, so a run changes "
                f"what the next one needs: {reserve}"
            )
        least, most = brief_size(self.demand_least_bytes), brief_size(self.demand_bytes)
        return f"needs {least} to {most}, depending on the run: {reserve}"

    @property
    def needed_bytes(self) -> float:
        """The demand; or a little more, if only there no trial is killed."""
        good, bad = self.viable.good, self.viable.bad
        if good and bad and bad.outcome == "oom-killed":
            return max(good.limit_bytes, self.demand_bytes)
        return self.demand_bytes

    def _fits_words(self) -> str:
        size = brief_size(self.size_bytes or 0)
        if not self.tried:
            return f"{size} was not tried"
        (one,) = self.tried
        if self.fits:
            slow = one.slowdown if self.fast else None
            took = f", taking {times_as_long(slow)}" if slow else ""
            return f"fits in {size} (finished {one.trials} of {one.trials} times{took})"
        if one.outcome == "ok" and one.slowdown:
            once = " in one trial" if one.trials == 1 else ""
            return f"does not fit in {size}: {self._pace_words(one.slowdown)} there{once}"
        return f"does not fit in {size}: {self._end(one)}"

    def _pace_words(self, slowdown: float) -> str:
        if self.throughput is not None and self.unlimited_per_s:
            return f"only {self.unlimited_per_s / slowdown:.3g} {per_second_words(self.unit)}"
        return f"takes {times_as_long(slowdown)}"

    def _slow_parts(self) -> tuple[str | None, str | None]:
        """How much later it starts, and where it gets too slow: of steady rounds, if it has any."""
        words, later_s = self._slow_words(), self.later_start_s
        if later_s is None or self.fast is None or self.fast.good is None or words is None:
            return None, words
        where = brief_size(self.fast.good.limit_bytes)
        once = " in one trial" if self.later_start_trials == 1 else ""
        start = f"starts {format_duration(later_s)} later at {where}{once}" if later_s > 0 else None
        return start, f"once running, it {words}"

    def _slow_words(self) -> str | None:
        """Where it gets too slow."""
        if self.throughput is not None and self.slowdown is not None and self.slowdown <= 1:
            return (
                f"{self.unlimited_per_s:.3g} {per_second_words(self.unit)} without a limit, "
                f"fewer than {self.throughput:g}"
            )
        if self.fast is None or self.slowdown is None:
            return None
        words = f"takes {times_as_long(self.slowdown)}"
        fine = f"takes at most {times_as_long(self.slowdown)}"
        if self.throughput is not None:
            words = f"fewer than {self.throughput:g} {per_second_words(self.unit)}"
            fine = f"at least {self.throughput:g} {per_second_words(self.unit)}"
        good, bad = self.fast.good, self.fast.bad
        if good is None:
            return f"{words} up to {brief_size(bad.limit_bytes)}" if bad else None
        if bad is None:
            return f"{fine} down to {brief_size(good.limit_bytes)}"
        if bad.outcome != "ok" and self.viable.bad == bad:
            # The next words say what happens below.
            stopped = bad.outcome == "timeout"
            return None if stopped else f"{fine} down to {brief_size(good.limit_bytes)}"
        if self.fast.settled:
            return f"{words} below {brief_size(good.limit_bytes)}"
        # Between the two it is not known.
        above = f"at {brief_size(good.limit_bytes)}"
        if bad.slowdown and good.slowdown and self.throughput is None:
            words, fine = f"takes {times_as_long(bad.slowdown)}", format_times(good.slowdown)
        return f"{words} at {brief_size(bad.limit_bytes)}, {fine} {above}"

    def _end_words(self) -> str | None:
        """Where it is killed, or stopped since it takes too long."""
        good, bad = self.viable.good, self.viable.bad
        if bad is None:
            least = brief_size(good.limit_bytes) if good else None
            return f"finished at {least}, the least limit tried" if least else None
        how = self._end(bad)
        if good is None:
            return f"{how} at {brief_size(bad.limit_bytes)}"
        least = brief_size(good.limit_bytes)
        if self.has_varying_demand or not self.viable.settled:
            # Between the two it is not known.
            return f"{how} at {brief_size(bad.limit_bytes)}, finished at {least}"
        if good.limit_bytes >= _ABOUT * self.needed_bytes:
            return f"{how} with less"
        return f"{how} below {least}"

    def _end(self, one: TriedLimit) -> str:
        """How the trials at a limit ended that is too small."""
        if one.outcome == "oom-killed":
            return "killed"
        if one.stopped_s is None:
            return one.outcome
        if self.unlimited_s is None or self.unlimited_per_s is not None:
            return f"not finished after {_seconds(one.stopped_s)}"
        return f"takes more than {times_as_long(one.stopped_s / self.unlimited_s)}"


def _factor(slowdown: float | None) -> str:
    return "" if slowdown is None else f"{slowdown:.3g}×"


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if 10 <= seconds < 60 else format_duration(seconds)
