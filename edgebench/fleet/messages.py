"""What goes between the controller and the machines, as plain data: any version can read it.

Dask dates heartbeats with the time of day, by which clocks are compared, too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgebench.errors import EdgebenchError, FleetError


def plain_error(error: EdgebenchError) -> dict[str, str | None]:
    """An error as plain data."""
    return {"what": error.what, "where": error.where, "remedy": error.remedy}


def told_error(machine: str, said: Mapping[str, Any]) -> FleetError:
    """The error that a machine told, with its name."""
    where = f"{machine}: {said['where']}" if said.get("where") else machine
    return FleetError(f"{machine}: {said['what']}", where=where, remedy=said.get("remedy"))


def told_reason(said: Mapping[str, Any]) -> str:
    """Why a machine that told this error is left out, with the fix that it told."""
    remedy = said.get("remedy")
    # Remedies may have several lines, of which some are indented.
    return f"{said['what']}; {' '.join(remedy.split())}" if remedy else str(said["what"])


def same_version_remedy(version: str) -> str:
    """How a machine gets the controller's version."""
    return f"install edgebench {version} there: by pip, or git pull in its clone, scripts/setup"


def told_loss(code: int, logs: Path) -> dict[str, str | None]:
    """The error where the process that makes a machine's trials ended by itself."""
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    remedy = f"see the worker's log there, in {logs}; then type the same command again"
    return {"what": f"the process that makes its trials {how}", "where": None, "remedy": remedy}


def time_of_day_s() -> float:
    """Seconds since the epoch, by this machine's clock, which may jump."""
    return time.time()


def seconds_since(moment_s: float) -> float:
    """Seconds from a time of day until now; 0 for one in the future."""
    return max(0.0, time.time() - moment_s)
