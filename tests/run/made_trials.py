"""A real trial of Python code in a cgroup of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import TrialSetup
from edgebench.run.trial.trial import TrialFiles, run_trial

_UNLIMITED = LimitSetting()


def python_trial(
    setup: TrialSetup,
    folder: Path,
    code: str,
    *words: str,
    limits: LimitSetting = _UNLIMITED,
    timeout_s: float = 60.0,
    **settings: Any,
) -> TrialRecord:
    """Make a trial of code with these words as its arguments; its files are in the folder."""
    command = [sys.executable, "-I", "-S", "-c", code, *words]
    request = TrialRequest(
        *("0001", "p1", 0, 0, {"kind": "command", "command": command, **settings}),
        *(limits, timeout_s),
    )
    return run_trial(setup, request, TrialFiles.scratch(folder))
