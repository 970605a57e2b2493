"""What a remedy is, how it is set, and the register that each one puts itself into."""

from __future__ import annotations

import platform
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from edgebench.layers.names import STREAM
from edgebench.workloads.engines.engine import WHOLE
from edgebench.workloads.engines.registry import TORCH
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
    """

    settings: Mapping[str, Any]
    swap_kind: str = "none"
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
        kernel: file of the kernel's → value that it gets.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    code: tuple[str, ...] = ()
    work: float = 1.0
    kernel: Mapping[str, str] = field(default_factory=dict)

    def with_other(self, other: RemedySetting) -> RemedySetting | None:
        """Both at once; None if they set the same thing."""
        pairs = (self.env, other.env), (self.settings, other.settings), (self.kernel, other.kernel)
        if any(one.keys() & another.keys() for one, another in pairs):
            return None
        return RemedySetting(
            {**self.env, **other.env},
            {**self.settings, **other.settings},
            (*self.code, *other.code),
            self.work * other.work,
            {**self.kernel, **other.kernel},
        )


class Remedy(ABC):
    """Something that may help under a memory limit.

    ``group`` is what it is about: two of one group are never tried at once.
    ``title`` says what it does, ``costs`` what it costs where memory is no limit, ``source`` where
    both are written. ``changes`` says what it may change in results beside time and memory; empty:
    nothing, so that outputs must stay the same to the last bit. ``lossy``: it changes them by its
    nature. ``promise``: what has more of it is tried sooner, as time may be short: from searches.
    ``tolerance``: how far outputs of inference may be off if it changes them, as a part of them.
    ``by_hand`` is the command for what changes the whole machine and can't be tried.
    """

    name: ClassVar[str]
    group: ClassVar[str]
    title: ClassVar[str]
    costs: ClassVar[str]
    source: ClassVar[str]
    effort: ClassVar[int] = FLAG
    changes: ClassVar[str] = ""
    lossy: ClassVar[bool] = False
    promise: ClassVar[int] = 0
    tolerance: ClassVar[float] = 1e-3
    by_hand: ClassVar[str] = ""

    @abstractmethod
    def unfit(self, target: RemedyTarget) -> str | None:
        """Why it is nothing for this workload; None: it can be tried."""

    @abstractmethod
    def setting(self, target: RemedyTarget) -> RemedySetting:
        """How it is set for this workload."""


class VariableRemedy(Remedy):
    """A remedy that is an environment variable or several of them."""

    group = "allocator"
    variables: ClassVar[tuple[tuple[str, str], ...]]

    def unfit(self, target: RemedyTarget) -> str | None:
        """Whoever has set one of them has decided."""
        known = [name for name, _ in self.variables if name in target.environment]
        return f"{known[0]} is set already" if known else None

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The variables."""
        return RemedySetting(env=dict(self.variables))


class GlibcRemedy(VariableRemedy):
    """A variable that glibc's allocator reads when a process starts."""

    def unfit(self, target: RemedyTarget) -> str | None:
        """Another C library, or another allocator in its place, does not read it."""
        if platform.libc_ver()[0] != "glibc":
            return "the C library is not glibc"
        if "LD_PRELOAD" in target.environment:
            return "LD_PRELOAD may have put another allocator in place of glibc's"
        return super().unfit(target)


class KernelRemedy(Remedy):
    """A setting of the whole machine: root alone may change it, and it is tried with --kernel only.

    ``file`` and ``value``: what is written where.
    """

    group = "kernel"
    file: ClassVar[str] = ""
    value: ClassVar[str] = ""

    def unfit(self, target: RemedyTarget) -> str | None:
        """What swap is used for is of no use without swap."""
        return "there is no swap" if target.swap_kind == "none" else None

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The file's value; nothing of what is set by hand alone."""
        return RemedySetting(kernel={self.file: self.value} if self.file else {})


#: All remedies of the modules that were imported so far.
REMEDIES: list[type[Remedy]] = []
RemedyType = TypeVar("RemedyType", bound=type[Remedy])


def registered_remedy(remedy: RemedyType) -> RemedyType:
    """Register a remedy's class."""
    REMEDIES.append(remedy)
    return remedy
