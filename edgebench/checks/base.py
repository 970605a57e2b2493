"""What a check is: available, show and advise, answered as one row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from edgebench.errors import MachineError

Status = Literal["ok", "warn", "fail", "absent"]


@dataclass(frozen=True)
class Advice:
    """What to do about what a check found. ``remedy`` is a command or an edit."""

    status: Literal["warn", "fail"]
    remedy: str


@dataclass(frozen=True)
class Answer:
    """One check's row: what it found, how grave that is, what mends it."""

    check: str
    status: Status
    says: str
    remedy: str | None = None


class Check(ABC):
    """One thing to look at."""

    name: str

    def available(self) -> str | None:
        """Why this can't be looked at here; None if it can."""
        return None

    @abstractmethod
    def show(self) -> str:
        """What is found, in one line.

        Raises:
            MachineError: what should be here is not; it carries its own remedy.
        """

    def advise(self) -> Advice | None:
        """What to do about it; None if all is well."""
        return None

    def answer(self) -> Answer:
        """Availability, finding and advice as one row."""
        reason = self.available()
        if reason:
            return Answer(self.name, "absent", reason)
        try:
            says = self.show()
        except MachineError as error:
            return Answer(self.name, "fail", error.what, error.remedy)
        advice = self.advise()
        if advice is None:
            return Answer(self.name, "ok", says)
        return Answer(self.name, advice.status, says, advice.remedy)
