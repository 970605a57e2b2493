"""Remedies: what makes a workload faster under a memory limit, or makes it fit.

A remedy has its facts, which workloads it fits, and how it is set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgebench.layers.names import STREAM, TORCH, WHOLE
from edgebench.workloads.training.names import PYTORCH

#: What a remedy takes to be set: a variable or a flag; a library or a line of code; a change of
#: how a network is trained or executed.
FLAG, LINE, REWRITE = 0, 1, 2


@dataclass(frozen=True)
class RemedyTarget:
    """A workload that is slow under a limit, and where it runs.

    Args:
        settings: the workload's, as a point has them.
        cores: how many it may use.
        environment: the variables that its process gets.
    """

    settings: Mapping[str, Any]
    cores: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)

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
        holds = self.settings.get("schedule") in ("bulk", STREAM, WHOLE)
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


Check = Callable[[RemedyTarget], str | None]
Setting = Callable[[RemedyTarget], RemedySetting]


@dataclass(frozen=True)
class Remedy:
    """Something that may help under a memory limit.

    Args:
        name: as it is typed.
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
    title: str
    costs: str
    source: str
    unfit: Check
    setting: Setting
    effort: int = FLAG
    changes: str = ""
    lossy: bool = False
    promise: int = 0
    tolerance: float = 1e-3

    def reason_against(self, target: RemedyTarget) -> str | None:
        """Return why it can't help a workload; None: it can be tried."""
        if reason := self.unfit(target):
            return reason
        setting = self.setting(target)
        return None if setting.env or setting.settings else "it does so already"


def first_reason(*checks: Check) -> Check:
    """Refuse a workload for the first reason of several."""
    return lambda target: next((reason for check in checks if (reason := check(target))), None)


def refuse(reason: str, test: Callable[[RemedyTarget], object]) -> Check:
    """Refuse a workload of which the test is true."""
    return lambda target: reason if test(target) else None


def refuse_set(reason: str, key: str, *values: object) -> Check:
    """Refuse where a setting has one of the values; without any, where it is set."""

    def test(target: RemedyTarget) -> bool:
        value = target.settings.get(key)
        return value in values if values else bool(value)

    return refuse(reason, test)


def only(kind: str, engine: str | None = None, title: str = "PyTorch") -> Check:
    """Refuse what is of another kind, or runs in another engine."""
    return refuse(
        f"it is no {kind} in {title}" if engine else f"it is no {kind}",
        lambda target: target.kind != kind or (engine and target.runtime != engine),
    )


def with_keys(line: str, **settings: object) -> Setting:
    """Set keys of edgebench's own workloads, those that differ.

    ``line`` does the same in a program of one's own.
    """

    def setting(target: RemedyTarget) -> RemedySetting:
        differing = {
            key: value for key, value in settings.items() if target.settings.get(key) != value
        }
        return RemedySetting(settings=differing, code=(line,))

    return setting
