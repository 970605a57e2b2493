"""What ``advise`` found: what to type, and what came of each remedy."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from edgebench.results.derived import TriedRemedy
from edgebench.results.unmeasured import Unmeasured
from edgebench.run.advise.candidates import Candidate, UntriedRemedy


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
        unmeasured: what its plain trials without a limit leave open.
        needed_bytes: the most that one of these needed; None: not known.
        library_bytes: what they map of libraries, which no limit counts; None: not known.
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
    unmeasured: Unmeasured = field(default_factory=Unmeasured)
    needed_bytes: float | None = None
    library_bytes: int | None = None

    @property
    def slowdown(self) -> float | None:
        """The plain workload's, at the limit."""
        return self.plain_s / self.unlimited_s if self.plain_s and self.unlimited_s else None

    def to_json(self) -> dict[str, Any]:
        """Plain data; the folder is where it is kept."""
        slowdown, folder = self.slowdown, str(self.folder)
        made: dict[str, Any] = to_builtins({**asdict(self), "slowdown": slowdown, "folder": folder})
        return made


def typed_lines(candidate: Candidate, plain: Mapping[str, Any]) -> Iterator[str]:
    """Yield what to type for a candidate, or to write.

    Variables, a program's whole line, keys, code.
    """
    setting = candidate.setting
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in setting.env.items())
    if variables and plain["kind"] == "command":
        yield f"{variables} {shlex.join(plain['command'])}"
    elif variables:
        yield f"export {variables}"
    for key, value in setting.settings.items():
        yield f"{key} = {json.dumps(value)}   # in a scenario's [workload]"
    for line in setting.code:
        yield f"{line}{',' if '   # ' in line else '   #'} in a program of your own"


def known_bounds(low: float, high: float) -> tuple[float | None, float | None]:
    """Return an interval without ends that are no numbers."""
    return (None, None) if math.isinf(high) else (low, high)


def by_time(tried: Sequence[TriedRemedy]) -> tuple[TriedRemedy, ...]:
    """Those that help first; what failed or changed results last."""
    return tuple(
        sorted(tried, key=lambda one: (one.end != "ok", one.ratio or 1.0, one.seconds or math.inf))
    )
