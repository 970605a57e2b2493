"""Sentences of ``minimum``: what a workload needs, where it gets slow, where it is killed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgebench.throughput import per_second_words
from edgebench.units import (
    MIB,
    brief_size,
    format_duration,
    format_times,
    times_as_long,
)
from edgebench.words.need import elsewhere_words, need_words
from edgebench.words.outcomes import outcome_words
from edgebench.words.unmeasured import growth_words, unmeasured_parts

if TYPE_CHECKING:
    from edgebench.run.minimum_answer import Minimum
    from edgebench.run.search import TriedLimit

#: Slowdowns that differ by less than this factor are told as one.
_ALIKE = 1.1
#: A limit that differs by no more than this share is the demand, as well as it is known.
_ABOUT = 0.97


def minimum_sentence(found: Minimum) -> str:
    """``needs 412 MiB; takes 2 times as long below 300 MiB; killed below 180 MiB (…)``."""
    open_parts = list(unmeasured_parts(found.unmeasured))
    if found.unmeasured.growth:
        held = brief_size(found.demand_bytes)
        grows = growth_words(found.unmeasured.growth, found.size_bytes)
        parts = [f"held {held} and is {grows}", *open_parts]
    else:
        parts = [_demand_words(found), *_level_parts(found), *open_parts]
        if found.size_bytes is not None:
            parts.insert(0, _fits_words(found))
        elif found.tried:
            ends = (*_slow_parts(found), _slowed_words(found), _end_words(found))
            parts += [part for part in ends if part]
        elif not found.unmeasured.level:
            parts.append("no limit was tried")
        parts += [give_words(found.give)] if found.give and found.tried else []
    trials = "1 trial" if found.trials == 1 else f"{found.trials} trials"
    return f"{'; '.join(parts)} ({trials}, {_seconds(found.total_s)})"


def _demand_words(found: Minimum) -> str:
    """The demand; where it varies, why."""
    if not found.has_varying_demand:
        return f"needs {need_words(found.need, brief_size)}{elsewhere_words(found.need)}"
    if found.is_first_different:
        first, later = (
            brief_size(found.demands_bytes[0]),
            brief_size(max(found.demands_bytes[1:])),
        )
        return (
            f"needed {first} in its first run and {later} in later ones, since a run changes "
            "what the next one needs"
        )
    least, most = brief_size(found.demand_least_bytes), brief_size(found.demand_bytes)
    runs = f" in {len(found.demands_bytes)} runs" if found.demands_bytes else ""
    return f"needs {least} to {most}{runs}, as {_why_it_varies(found)}"


def _why_it_varies(found: Minimum) -> str:
    """Why runs differ: what was seen to stay outside a run comes before any guess."""
    seen = found.unmeasured
    if seen.left_bytes:
        return "what one run leaves in memory is not charged to the next one"
    if seen.processes:
        return "what outlives the command is ended sooner or later"
    if found.stop_after_s is not None:
        return f"it gets more or less far in {format_duration(found.stop_after_s)}"
    return "its threads, inputs or timing differ from run to run"


def _level_parts(found: Minimum) -> Iterator[str]:
    """That the memory of a program that is stopped had stopped growing."""
    level = found.unmeasured.level
    if found.stop_after_s is not None and level and level.level_s is not None:
        since, lasted = format_duration(level.level_s), format_duration(level.lasted_s or 0.0)
        yield f"level from {since} on, in {lasted}"


def _slowed_words(found: Minimum) -> str | None:
    """Where it finishes, but slowly, though no slowdown was asked for."""
    if not found.slowed:
        return None
    widest, tightest = found.slowed[0], found.slowed[-1]
    sizes = brief_size(widest.limit_bytes)
    if tightest.limit_bytes != widest.limit_bytes:
        sizes = f"{brief_size(tightest.limit_bytes)} to {sizes}"
    factors = [one.slowdown for one in found.slowed if one.slowdown is not None]
    least, most = min(factors), max(factors)
    often = "" if any(one.trials > 1 for one in found.slowed) else ", one trial each"
    if len(found.slowed) == 1:
        often = " in one trial" if widest.trials == 1 else ""
    if most < _ALIKE * least:
        return f"takes {times_as_long(math.sqrt(least * most))} at {sizes}{often}"
    return f"takes {least:.2g} to {times_as_long(most)} at {sizes}{often}"


def give_words(give: TriedLimit) -> str:
    """``give 412 MiB: 4 of 4 trials finished within it``."""
    seen = "1 trial finished" if give.trials == 1 else f"{give.trials} of {give.trials} trials"
    finished = "" if give.trials == 1 else " finished"
    return f"give {brief_size(give.limit_bytes)}: {seen}{finished} within it"


def give_lines(give: TriedLimit, swap_kind: str, swap_bytes: int | None) -> dict[str, str]:
    """The lines that give it: for Docker and Podman, systemd and Kubernetes.

    Args:
        give: the limit.
        swap_kind: of its trials; a limit that needs swap is no line for Kubernetes.
        swap_bytes: the swap that it was measured with; None: all that the machine has.
    """
    size = math.ceil(give.limit_bytes)
    # What goes beyond what was measured is throttled first, and killed at a twentieth more.
    high, most = _short(size), _short(size + max(size // 20, MIB))
    docker = f"docker run --memory={high.lower()}"
    swap_bytes = 0 if swap_kind == "none" else swap_bytes
    systemd = f"MemoryHigh={high} MemoryMax={most}"
    if swap_bytes is not None:
        docker += f" --memory-swap={_short(size + swap_bytes).lower()}"
        systemd += f" MemorySwapMax={_short(swap_bytes)}"
    lines = {"docker": docker, "systemd": systemd}
    if swap_kind != "none":
        return lines
    kubernetes = f'resources: {{requests: {{memory: "{high}i"}}, limits: {{memory: "{high}i"}}}}'
    return {**lines, "kubernetes": kubernetes}


def _short(size_bytes: int) -> str:
    """``412M``, ``8192K``; rounded up."""
    if size_bytes % MIB == 0 or size_bytes >= 64 * MIB:
        return f"{-(-size_bytes // MIB)}M" if size_bytes else "0"
    return f"{-(-size_bytes // 1024)}K"


def _fits_words(found: Minimum) -> str:
    size = brief_size(found.size_bytes or 0)
    if not found.tried:
        return f"{size} was not tried"
    (one,) = found.tried
    if found.fits:
        slow = one.slowdown if found.fast else None
        took = f", taking {times_as_long(slow)}" if slow else ""
        return f"fits in {size} (finished {one.trials} of {one.trials} times{took})"
    if one.outcome == "ok" and one.slowdown:
        once = " in one trial" if one.trials == 1 else ""
        return f"does not fit in {size}: {_pace_words(found, one.slowdown)} there{once}"
    return f"does not fit in {size}: {_end(found, one)}"


def _pace_words(found: Minimum, slowdown: float) -> str:
    if found.throughput is not None and found.unlimited_per_s:
        return f"only {found.unlimited_per_s / slowdown:.3g} {per_second_words(found.unit)}"
    return f"takes {times_as_long(slowdown)}"


def _slow_parts(found: Minimum) -> tuple[str | None, str | None]:
    """How much later it starts, and where it gets too slow: of steady rounds, if it has any."""
    words, later_s = _slow_words(found), found.later_start_s
    if later_s is None or found.fast is None or found.fast.good is None or words is None:
        return None, words
    where = brief_size(found.fast.good.limit_bytes)
    once = " in one trial" if found.later_start_trials == 1 else ""
    start = f"starts {format_duration(later_s)} later at {where}{once}" if later_s > 0 else None
    return start, f"once running, it {words}"


def _slow_words(found: Minimum) -> str | None:
    """Where it gets too slow."""
    if found.throughput is not None and found.slowdown is not None and found.slowdown <= 1:
        return (
            f"{found.unlimited_per_s:.3g} {per_second_words(found.unit)} without a limit, "
            f"fewer than {found.throughput:g}"
        )
    if found.fast is None or found.slowdown is None:
        return None
    words = f"takes {times_as_long(found.slowdown)}"
    fine = f"takes at most {times_as_long(found.slowdown)}"
    if found.throughput is not None:
        words = f"fewer than {found.throughput:g} {per_second_words(found.unit)}"
        fine = f"at least {found.throughput:g} {per_second_words(found.unit)}"
    good, bad = found.fast.good, found.fast.bad
    if good is None:
        return f"{words} up to {brief_size(bad.limit_bytes)}" if bad else None
    if bad is None:
        return f"{fine} down to {brief_size(good.limit_bytes)}"
    if bad.outcome != "ok" and found.viable.bad == bad:
        # The next words say what happens below.
        stopped = bad.outcome == "timeout"
        return None if stopped else f"{fine} down to {brief_size(good.limit_bytes)}"
    if found.fast.settled:
        return f"{words} below {brief_size(good.limit_bytes)}"
    # Between the two it is not known.
    above = f"at {brief_size(good.limit_bytes)}"
    if bad.slowdown and good.slowdown and found.throughput is None:
        words, fine = f"takes {times_as_long(bad.slowdown)}", format_times(good.slowdown)
    return f"{words} at {brief_size(bad.limit_bytes)}, {fine} {above}"


def _end_words(found: Minimum) -> str | None:
    """Where it is killed, or stopped since it takes too long."""
    good, bad = found.viable.good, found.viable.bad
    if bad is None:
        least = brief_size(good.limit_bytes) if good else None
        return f"finished at {least}, the least limit tried" if least else None
    how = _end(found, bad)
    if good is None:
        return f"{how} at {brief_size(bad.limit_bytes)}"
    least = brief_size(good.limit_bytes)
    if found.has_varying_demand or not found.viable.settled:
        # Between the two it is not known.
        return f"{how} at {brief_size(bad.limit_bytes)}, finished at {least}"
    if _ABOUT <= good.limit_bytes / found.demand_bytes <= 1 / _ABOUT:
        return f"{how} with less"
    return f"{how} below {least}"


def _end(found: Minimum, one: TriedLimit) -> str:
    """How the trials at a limit ended that is too small."""
    if one.outcome == "oom-killed":
        return "killed"
    if one.stopped_s is None:
        return outcome_words(one.outcome).past
    if found.unlimited_s is None or found.unlimited_per_s is not None:
        return f"not finished after {_seconds(one.stopped_s)}"
    return f"takes more than {times_as_long(_below(one.stopped_s / found.unlimited_s))}"


def _below(factor: float) -> float:
    """Rounded down to two digits: it took more than that."""
    step = 10.0 ** (math.floor(math.log10(factor)) - 1)
    return math.floor(factor / step + 1e-9) * step


def swap_ram_sentence(found: Minimum) -> str:
    """What its swap took of the limits; empty where it lies on a disk."""
    if not found.swap_ram_bytes:
        return ""
    return f"The limits count what its swap takes of RAM: up to {brief_size(found.swap_ram_bytes)}."


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if 10 <= seconds < 60 else format_duration(seconds)
