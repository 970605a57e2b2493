"""A strategy's own trial: how its workload is started, and what is read once it has ended.

A profiler that is not there, crashes or leaves nothing costs its own figures and nothing else.
"""

from __future__ import annotations

import gzip
import json
import mmap
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgebench.cgroups.identity import created_as_owner, give_to_caller
from edgebench.measures.registry import own
from edgebench.measures.strategy import Asked, Seen, Strategy
from edgebench.records.records import TrialRecord
from edgebench.workloads.registry import Launch


@dataclass(frozen=True)
class Observer:
    """One strategy with the folder it may write to, for one trial.

    Args:
        strategy: which; one with a trial of its own.
        folder: made anew, and gone after :meth:`read`.
        target: where its reading is kept (``.json.gz``).
    """

    strategy: Strategy
    folder: Path
    target: Path

    @classmethod
    def of(cls, name: str, asked: Asked, folder: Path, target: Path) -> Observer:
        """The observer of that strategy; its folder belongs to whom the workload runs as."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        give_to_caller(folder)
        return cls(own()[name].configured(asked), folder, target)

    def wrap(self, start: Launch) -> Launch:
        """The workload's words as the strategy wants them.

        ``env`` sets the strategy's variables past GNU time, which must not be profiled too.
        """
        command, env = self.strategy.wrap(start.argv, {}, self.folder)
        if env:
            command = ["env", *(f"{name}={value}" for name, value in env.items()), *command]
        return replace(start, argv=tuple(command))

    def read(self, record: TrialRecord, events: Sequence[dict[str, Any]]) -> TrialRecord:
        """Keep the strategy's reading; the record says why if there is none."""
        try:
            reading = self.strategy.read(_seen(events, record, self.folder))
        except Exception as error:
            # Whatever a profiler left: it costs its own figures, and the sweep goes on.
            return replace(record, missing={**record.missing, "reading": str(error)})
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        data = json.dumps(reading.to_json(), separators=(",", ":")).encode()
        with created_as_owner(self.target) as file:
            file.write(gzip.compress(data, compresslevel=6))
        return record


def _seen(events: Sequence[dict[str, Any]], record: TrialRecord, folder: Path) -> Seen:
    cpus = record.limits.cores or len(os.sched_getaffinity(0))
    return Seen(events, record, folder, cpus=cpus, page_bytes=mmap.PAGESIZE)
