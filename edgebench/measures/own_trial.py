"""The reading of a strategy's own trial, made where the caller's rights are all there are.

The harness calls :func:`read_own_trial` through :mod:`edgebench.caller_process`: the files of a
profiler, and what outside programs are asked about them, may be of the workload's making.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from edgebench.measures.strategy import StrategyOptions, TrialData
from edgebench.records import TrialRecord


def read_own_trial(request: Mapping[str, Any]) -> dict[str, Any]:
    """The reading as plain data.

    Args:
        request: ``strategy`` (``module:class``), its ``options``, the trial's ``folder``,
            ``record``, ``events`` and ``cpus``.

    Raises:
        ResultsError: what the strategy left can't be read.
    """
    module, _, name = request["strategy"].partition(":")
    options = StrategyOptions(**request["options"])
    trial = TrialData(
        events=request["events"],
        record=TrialRecord.from_json(request["record"]),
        folder=Path(request["folder"]),
        cpus=request["cpus"],
        page_bytes=mmap.PAGESIZE,
    )
    strategy = getattr(import_module(module), name)().configured(options)
    reading: dict[str, Any] = strategy.read(trial).to_json()
    return reading
