"""What a remedy is: its facts, which workloads it fits, how it is set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgebench.layers.names import STREAM
from edgebench.workloads.engines.engine import TORCH, WHOLE
from edgebench.workloads.training.names import PYTORCH

#: What a remedy takes to be set: a variable or a flag; a library or a line of code; a change of
#: how a network is trained or executed.
FLAG, LINE, REWRITE = 0, 1, 2
#: Schedules that execute a network several times before they load it again.
_HOLDING = ("bulk", STREAM, WHOLE)


@dataclass(frozen=True)
class RemedyTarget:
    """A workload that is slow under a limit, and where it runs.

    Args:
        settings: the workload's, as a point has them.
        swap_kind: the kind of swap that it may use; ``none``: it has none.
        cores: how many it may use.
        environment: the variables that its process gets.
        limit_bytes: its limit of memory; None: there is none.
    """

    settings: Mapping[str, Any]
    swap_kind: str = "none"
    cores: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    limit_bytes: int | None = None

    @property
    def kind(self) -> str:
        """What the settings call it: ``command``, ``inference`` or ``training``."""
        return str(self.settings["kind"])

    @property
    def runtime(self) -> str | None:
        """The engine or framework that executes it; None of a command: it is not known."""
        if self.kind == "training":
            framework = str(self.settings["framework"])
            return TORCH if framework == PYTORCH else framework
        return str(self.settings.get("engine") or TORCH) if self.kind == "inference" else None

    @property
    def executions(self) -> int:
        """How often a network is executed each time that it is loaded."""
        holds = self.settings.get("schedule") in _HOLDING
        return 1 + int(self.settings.get("warm") or 0) if holds else 1


@dataclass(frozen=True)
class RemedySetting:
    """How a remedy is set.

    Args:
        env: environment variables of the workload's process.
        settings: settings of edgebench's own workloads.
        code: what does the same in a program of one's own, where no variable does.
        work: what a round does, as a part of what it did without the remedy.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    code: tuple[str, ...] = ()
    work: float = 1.0

    def with_other(self, other: RemedySetting) -> RemedySetting | None:
        """Both at once; None if they set the same thing."""
        pairs = (self.env, other.env), (self.settings, other.settings)
        if any(one.keys() & another.keys() for one, another in pairs):
            return None
        return RemedySetting(
            {**self.env, **other.env},
            {**self.settings, **other.settings},
            (*self.code, *other.code),
            self.work * other.work,
        )


@dataclass(frozen=True)
class Remedy:
    """Something that may help under a memory limit.

    Args:
        name: as it is typed.
        group: what it is about; two remedies of one group are never tried together.
        title: what it does.
        costs: its cost where memory is no limit.
        source: where both are documented.
        unfit: why it can't help this workload; None: it can be tried.
        setting: how it is set for a workload that it fits.
        effort: what it takes to set it.
        changes: what may change in results beside time and memory; empty: nothing, so outputs
            must be bit-equal.
        lossy: it changes results by its nature.
        promise: remedies with a higher value are tried sooner, as time may be short. The values
            come from earlier searches.
        tolerance: the relative error that outputs of inference may have, if it changes them.
    """

    name: str
    group: str
    title: str
    costs: str
    source: str
    unfit: Callable[[RemedyTarget], str | None]
    setting: Callable[[RemedyTarget], RemedySetting]
    effort: int = FLAG
    changes: str = ""
    lossy: bool = False
    promise: int = 0
    tolerance: float = 1e-3


def with_settings(line: str, **settings: object) -> Callable[[RemedyTarget], RemedySetting]:
    """Return a remedy that sets edgebench's own workloads, of which only what differs is set.

    Args:
        line: what does the same in a program of one's own.
        settings: keys of a scenario and their values.
    """

    def setting(target: RemedyTarget) -> RemedySetting:
        own = {key: value for key, value in settings.items() if target.settings.get(key) != value}
        return RemedySetting(settings=own, code=(line,))

    return setting
