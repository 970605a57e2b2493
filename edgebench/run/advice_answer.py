"""What ``advise`` found: the sentence, what to type, and what came of each remedy."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgebench.results.advice_file import TriedRemedy
from edgebench.results.spread import SLIGHT
from edgebench.run.advice_candidates import Candidate, UntriedRemedy, kernel_commands
from edgebench.units import brief_size, format_duration

#: A factor below this is told in percent.
_TWICE = 1.995


@dataclass(frozen=True)
class BestRemedy:
    """The winner, measured anew.

    Args:
        name: its name; two are joined by ``+``.
        titles: what each of it does.
        typed: what to type, or write in a program; a line each.
        finished: trials that finished under the limit, of ``trials``.
        plain_finished: how many plain ones beside them did.
        ratio: its time as a part of the plain one; None: plain does not finish.
        low, high: the ratio's 95 % interval.
        pairs: how many the ratio comes from.
        seconds: the median of a round under the limit.
        unlimited_ratio: the same ratio without a limit: what it costs elsewhere.
        changes: what it may change in results.
        costs: what it costs where memory is no limit, in words.
        confirmed: whether it is advised: it helps in these fresh trials, too.
    """

    name: str
    titles: tuple[str, ...]
    typed: tuple[str, ...]
    finished: int
    trials: int
    plain_finished: int
    ratio: float | None
    low: float | None
    high: float | None
    pairs: int
    seconds: float | None
    unlimited_ratio: float | None
    changes: str
    costs: str
    confirmed: bool


@dataclass(frozen=True)
class Advice:
    """What helps under a limit.

    Args:
        name: of the network or command.
        kind: of the workload.
        folder: the sweep that has the trials.
        limit_bytes: the limit.
        plain_end: how the plain workload ends there: ``ok`` or another outcome.
        plain_s: the median of its round there, where it finishes; None: it never does.
        unlimited_s: the same without the limit.
        pressed: whether the limit costs anything; False: nothing was tried.
        best: the winner; None: nothing was faster.
        tried: each remedy that was tried, the fastest first.
        untried: those that were not, with the reasons.
        out_of_time: names of those for which no time was left.
        trials: of all kinds.
        total_s: what the search took, its preparation included.
        trial_s: what a plain trial takes under the limit; None: there is none.
        budget_s: what the search was to take.
        finished: False: it was interrupted.
    """

    name: str
    kind: str
    folder: Path
    limit_bytes: int
    plain_end: str
    plain_s: float | None
    unlimited_s: float | None
    pressed: bool
    best: BestRemedy | None
    tried: tuple[TriedRemedy, ...]
    untried: tuple[UntriedRemedy, ...]
    out_of_time: tuple[str, ...]
    trials: int
    total_s: float
    trial_s: float | None = None
    budget_s: float | None = None
    finished: bool = True

    @property
    def slowdown(self) -> float | None:
        """The plain workload's, at the limit."""
        return self.plain_s / self.unlimited_s if self.plain_s and self.unlimited_s else None

    def to_json(self) -> dict[str, Any]:
        """Plain data, the sentence included; the folder is where it is kept."""
        said = {"sentence": self.sentence, "slowdown": self.slowdown}
        return {**said, **asdict(self), "folder": str(self.folder)}

    @property
    def sentence(self) -> str:
        """The answer: ``at 250 MiB is 3.3 times faster with mmap-threshold: …``."""
        told = f"({self.trials} trials, {format_duration(self.total_s)})"
        return f"{self._words()} {told}"

    def _words(self) -> str:
        at = f"at {brief_size(self.limit_bytes)}"
        if not self.pressed:
            return f"{at} is not slowed ({self._slowed()}): no remedy was tried, none is advised"
        lost = _ENDS.get(self.plain_end, "fails") + (" at times" if self.plain_s else "")
        state = f"{at} {lost}" if self.plain_end != "ok" else f"{at} is slowed ({self._slowed()})"
        if self.best is None:
            return f"{state}: {_none_of(len(self.tried))}"
        if not self.best.confirmed:
            return f"{state}: {self.best.name} may help, but {_doubt(self.best)}"
        if self.plain_end != "ok":
            often = f"{self.best.finished} of {self.best.trials} times"
            plain = f"plain {self.best.plain_finished}"
            return f"{state}; with {self.best.name} it finishes {often} ({plain}){self._each()}"
        return (
            f"{at} is {_gain(self.best)} with {self.best.name}{self._each()}"
            f"{_more_often(self.best)}{_elsewhere(self.best)}"
        )

    def _slowed(self) -> str:
        factor = self.slowdown
        return "its slowdown is unknown" if factor is None else f"×{factor:.3g}"

    def _each(self) -> str:
        """``: 223 ms a step instead of 735 ms``."""
        if self.best is None or self.best.seconds is None:
            return ""
        unit = _UNITS.get(self.kind, "")
        instead = f" instead of {format_duration(self.plain_s)}" if self.plain_s else ""
        return f": {format_duration(self.best.seconds)}{unit}{instead}"


_ENDS = {
    "oom-killed": "is killed",
    "accelerator-oom": "finds the accelerator's memory full",
    "timeout": "does not end in time",
}
_UNITS = {"training": " a step", "inference": " a round"}


def _none_of(count: int) -> str:
    if count < 2:
        return "the one remedy that was tried does not help" if count else "no remedy fits it"
    return f"none of the {count} remedies that were tried helps"


def _doubt(best: BestRemedy) -> str:
    """Why the winner is not advised: it failed, or its fresh pairs differ too much."""
    if best.finished < best.trials:
        return f"it finished only {best.finished} of {best.trials} times when it was measured anew"
    if best.ratio is None or best.low is None or best.high is None:
        return "this was not seen again when it was measured anew"
    between = f"×{best.ratio:.2f}, 95 % interval {best.low:.2f} to {best.high:.2f}"
    return f"{best.pairs} pairs of fresh trials can't tell ({between})"


def _gain(best: BestRemedy) -> str:
    """``3.3 times faster (3.1 to 3.5)``, or ``12 % faster (8 to 16)``."""
    ratio, low, high = best.ratio or 1.0, best.low, best.high
    if 1 / ratio < _TWICE:
        percents = [f"{100 * (1 - part):.0f}" for part in (ratio, high, low) if part is not None]
        between = f" ({percents[1]} to {percents[2]} %)" if len(percents) > 1 else ""
        return f"{percents[0]} % faster{between}"
    between = f" ({1 / high:.2g} to {1 / low:.2g})" if low and high else ""
    return f"{1 / ratio:.2g} times faster{between}"


def _more_often(best: BestRemedy) -> str:
    """Of a plain workload that was killed at times."""
    if best.plain_finished >= best.finished:
        return ""
    return f"; it finished {best.finished} of {best.trials} times, plain {best.plain_finished}"


def _elsewhere(best: BestRemedy) -> str:
    ratio = best.unlimited_ratio
    if ratio is None:
        return ""
    if ratio > SLIGHT:
        return f"; without a limit it takes {ratio:.2g} times as long"
    return "; without a limit it takes no more than 10 % longer"


def typed_lines(candidate: Candidate, plain: Mapping[str, Any]) -> Iterator[str]:
    """What to type for a candidate, or to write: variables, a program's whole line, keys, code."""
    setting = candidate.setting
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in setting.env.items())
    if variables and plain["kind"] == "command":
        yield f"{variables} {shlex.join(plain['command'])}"
    elif variables:
        yield f"export {variables}"
    yield from kernel_commands(setting)
    for key, value in setting.settings.items():
        yield f"{key} = {json.dumps(value)}   # in a scenario's [workload]"
    for line in setting.code:
        yield f"{line}{',' if '   # ' in line else '   #'} in a program of your own"


def known_bounds(low: float, high: float) -> tuple[float | None, float | None]:
    """An interval without ends that are no numbers."""
    return (None, None) if math.isinf(high) else (low, high)


def by_time(tried: Sequence[TriedRemedy]) -> tuple[TriedRemedy, ...]:
    """Those that help first; what failed or changed results last."""
    return tuple(
        sorted(tried, key=lambda one: (one.end != "ok", one.ratio or 1.0, one.seconds or math.inf))
    )
