"""A strategy's own trial: how its workload is started, and what is read once it has ended.

A profiler that is not there, crashes or leaves nothing costs its own figures and nothing else.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from edgebench.caller_process import CallError, call_as_caller
from edgebench.measures.strategies import Reading, Strategy, StrategyOptions, with_own_trial
from edgebench.processes import Identity
from edgebench.records import TrialRecord
from edgebench.run.trial.launch import Launch
from edgebench.run.trial.record import TrialRequest
from edgebench.safe_files import make_folder, remove_folder, write

_READ = "edgebench.measures.strategies:read_own_trial"


@dataclass(frozen=True)
class StrategyTrial:
    """One strategy with the folder it may write to, for one trial.

    Args:
        strategy: which; one with a trial of its own.
        options: what it is to do.
        folder: made new, and removed after :meth:`keep_reading`.
        target: where its reading is kept (``.json.gz``).
    """

    strategy: Strategy
    options: StrategyOptions
    folder: Path
    target: Path

    @classmethod
    def of(cls, request: TrialRequest, folder: Path, target: Path) -> StrategyTrial:
        """Return the trial of the request's strategy, its folder made."""
        remove_folder(folder)
        make_folder(folder, exist_ok=False)
        options = StrategyOptions(request.dump_every_bytes, request.timeout_s)
        strategy = with_own_trial()[str(request.strategy)].configured(options)
        return cls(strategy, options, folder, target)

    def wrap(self, start: Launch) -> Launch:
        """Return the workload's command line as the strategy needs it.

        ``env`` sets the strategy's variables past GNU time, which must not be profiled too.
        """
        command, env = self.strategy.wrap(start.argv, {}, self.folder)
        if env:
            command = ["env", *(f"{name}={value}" for name, value in env.items()), *command]
        return replace(start, argv=tuple(command))

    def keep_reading(
        self, record: TrialRecord, events: Sequence[dict[str, Any]], identity: Identity | None
    ) -> str:
        """Keep the strategy's reading, made as that user; return why there is none, else ``""``."""
        kind = type(self.strategy)
        request = {
            "strategy": f"{kind.__module__}:{kind.__qualname__}",
            "options": asdict(self.options),
            "folder": str(self.folder),
            "record": record.to_json(),
            "events": events,
            "cpus": record.limits.cores or len(os.sched_getaffinity(0)),
        }
        try:
            answer = call_as_caller(_READ, request, identity, imports=[kind.__module__])
            reading = msgspec.convert(answer, Reading)
        except (CallError, msgspec.ValidationError) as error:
            return str(error)
        finally:
            remove_folder(self.folder)
        data = json.dumps(reading.to_json(), separators=(",", ":")).encode()
        write(self.target, gzip.compress(data, compresslevel=6))
        return ""
