"""The results folder being written: one sweep's files, safe against a kill or power cut.

``<root>/<device>/<UTC>-<scenario>-<short id>/`` (docs/reference/results.md has every file and key).
Whatever is whole on disk stays whole: small files are replaced atomically, a trial's own files
reach the disk before its line, its line is synced before the next trial starts, and a torn last
line is cut when the folder is opened again. So a kill loses at most the trial in flight.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from edgebench.errors import ResultsError
from edgebench.records import FINAL_OUTCOMES, TrialRecord
from edgebench.results.layout import (
    COMPLETE,
    DAMAGED_REMEDY,
    ENVIRONMENT,
    EVENTS,
    LIVE,
    LOGS,
    MOST_LINE_BYTES,
    NETWORKS,
    READINGS,
    RESOLVED,
    SAMPLES,
    SCENARIO,
    TRIALS,
    is_being_written,
    json_bytes,
    open_locked,
    read_json,
    read_records,
    trials_file,
    whole_length,
)
from edgebench.results.limit_to_give import AskedPace
from edgebench.safe_files import (
    PART,
    make_folder,
    remove_file,
    remove_folder,
    rename,
    sync,
    write_whole,
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TAIL_BYTES = 1 << 20
UNWRITABLE_REMEDY = "free some space or make the folder writable, or name another: --results FOLDER"


class ResultsFolder:
    """One sweep's folder, held for writing by one process at a time.

    Make one with :meth:`create` or :meth:`open`; close it, or use it as a context manager.
    """

    def __init__(self, path: Path, trials_fd: int) -> None:
        self.path = path
        self._fd = trials_fd

    @classmethod
    def create(
        cls,
        root: Path,
        device: str,
        scenario_name: str,
        scenario_text: str,
        resolved: dict[str, Any],
        environment: dict[str, Any],
        networks: dict[str, Any] | None = None,
    ) -> ResultsFolder:
        """Return a fresh folder with everything that is known before the first trial.

        ``resolved`` carries the scenario's ``fingerprint``, its ``points`` and its ``plan``;
        ``networks`` is the manifest of :mod:`edgebench.layers.pipeline`.

        Raises:
            ResultsError: the root can't be written, or a name is no plain file name.
        """
        for name in (device, scenario_name):
            _check_name(name)
        files = {
            SCENARIO: scenario_text.encode(),
            RESOLVED: json_bytes(resolved),
            ENVIRONMENT: json_bytes(environment),
            TRIALS: b"",
        }
        if networks:
            files[NETWORKS] = json_bytes(networks)
        now = datetime.now(timezone.utc)
        # Sweeps of one second sort by their start too.
        suffix = f"{now.microsecond // 16:04x}{os.urandom(1).hex()}"
        path = Path(root) / device / f"{now:%Y%m%dT%H%M%SZ}-{scenario_name}-{suffix}"
        with _worded(path.parent):
            return cls._make(path, files)

    @classmethod
    def _make(cls, path: Path, files: dict[str, bytes]) -> ResultsFolder:
        # Filled under a hidden name: what readers and a resume find is always complete.
        make_folder(path.parent, parents=True)
        for left in path.parent.glob(f".*{PART}"):
            # Half made by a start that was killed.
            if not is_being_written(left):
                remove_folder(left)
        part = path.with_name(f".{path.name}{PART}")
        make_folder(part, exist_ok=False)
        descriptor = open_locked(part / TRIALS, os.O_CREAT)
        try:
            for folder in (SAMPLES, EVENTS, LOGS, READINGS):
                make_folder(part / folder)
            for name, data in files.items():
                if name != TRIALS:
                    write_whole(part / name, data)
            os.fsync(descriptor)
            sync(part)
            rename(part, path.name)
            for parent in (path.parent, path.parent.parent):
                sync(parent)
        except BaseException:
            os.close(descriptor)
            remove_folder(part)
            raise
        return cls(path, descriptor)

    @classmethod
    def open(cls, path: Path) -> ResultsFolder:
        """Return an earlier start's folder, to go on with; a torn last line is cut.

        Raises:
            ResultsError: no results folder, another process writes to it, or a newer version's.
        """
        path = Path(path)
        read_json(path / RESOLVED)
        with _worded(path):
            folder = cls(path, open_locked(path / TRIALS))
        try:
            folder.repair()
            for part in path.glob(f".*{PART}"):
                remove_file(part)
            folder.finished_trials()
        except BaseException:
            folder.close()
            raise
        return folder

    def append(self, *records: TrialRecord) -> None:
        """Add a trial's line, or a walk's together, after its own files, and wait for the disk.

        Raises:
            ResultsError: it can't be written (disk full); the file is as it was before.
        """
        lines = [json.dumps(made.to_json(), separators=(",", ":")) + "\n" for made in records]
        rest = "".join(lines).encode()
        with _worded(self.path):
            for trial in (made.trial for made in records):
                paths = self.samples_path, self.events_path, self.log_path
                # Without making the folder, as reading_path does.
                for file in (*(p(trial) for p in paths), self.path / READINGS / f"{trial}.json.gz"):
                    if os.path.lexists(file):
                        sync(file)
                        sync(file.parent)
            before = os.fstat(self._fd).st_size
            try:
                while rest:
                    rest = rest[os.write(self._fd, rest) :]
                os.fsync(self._fd)
            except OSError:
                # Half a line would spoil the next one.
                os.ftruncate(self._fd, before)
                raise

    def repair(self) -> bool:
        """Cut a torn last line; True if there was one."""
        size = os.fstat(self._fd).st_size
        whole = _whole_size(self._fd, size, self.path)
        if whole == size:
            return False
        os.ftruncate(self._fd, whole)
        os.fsync(self._fd)
        return True

    def records(self) -> Sequence[TrialRecord]:
        """Return what is recorded, one record a trial: its final one, else its latest."""
        return read_records(self.path / TRIALS, [])

    def finished_trials(self) -> set[str]:
        """Trials that need not be made again: their outcome is a result."""
        return {one.trial for one in self.records() if one.outcome in FINAL_OUTCOMES}

    def plan(self) -> object:
        """Return the planned trials, in order, as plain data; anything else where it is damaged."""
        return read_json(self.path / RESOLVED).get("plan")

    def replan(self, planned: list[dict[str, Any]]) -> None:
        """Put a longer plan in the place of the old one, whole or not at all.

        Raises:
            ResultsError: it can't be written.
        """
        resolved = read_json(self.path / RESOLVED)
        with _worded(self.path):
            write_whole(self.path / RESOLVED, json_bytes({**resolved, "plan": planned}))

    def finish(self, summary: dict[str, Any]) -> None:
        """Mark the sweep complete."""
        utc = datetime.now(timezone.utc).isoformat(timespec="seconds")
        with _worded(self.path):
            write_whole(self.path / COMPLETE, json_bytes({"completed_utc": utc, **summary}))

    def samples_path(self, trial: str) -> Path:
        """Where the sampler's table of a trial goes (``.npz``)."""
        return self.path / SAMPLES / f"{_check_name(trial)}.npz"

    def events_path(self, trial: str) -> Path:
        """Where a trial's events go (``.jsonl.gz``)."""
        return self.path / EVENTS / f"{_check_name(trial)}.jsonl.gz"

    def log_path(self, trial: str) -> Path:
        """Where what a trial's workload printed goes."""
        return self.path / LOGS / f"{_check_name(trial)}.log"

    def reading_path(self, trial: str) -> Path:
        """Where the figures of a strategy's own trial go (``.json.gz``)."""
        folder = self.path / READINGS
        # A sweep that an older version began has none.
        make_folder(folder)
        return folder / f"{_check_name(trial)}.json.gz"

    @property
    def live_path(self) -> Path:
        """Where the trial under way is shown while there is one (``live.json``)."""
        return self.path / LIVE

    def close(self) -> None:
        """Let another process write. Safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> ResultsFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def find_sweep(root: Path, device: str, fingerprint: str, *, finished: bool = False) -> Path | None:
    """Return the newest folder of this scenario on this device whose sweep is complete, or is not.

    Folders that are damaged or made by a newer version are passed over.
    """
    parent = Path(root) / _check_name(device)
    folders = [p for p in parent.glob("[!.]*") if trials_file(p)]
    for path in sorted(folders, reverse=True):
        with contextlib.suppress(ResultsError):
            resolved = read_json(path / RESOLVED)
            is_meant = resolved.get("fingerprint") == fingerprint
            if is_meant and (path / COMPLETE).exists() == finished:
                return path
    return None


def _whole_size(descriptor: int, size: int, path: Path) -> int:
    """How much of the file are whole lines, read from its end: there may be very many."""
    length = _TAIL_BYTES
    while True:
        start = max(0, size - length)
        data = os.pread(descriptor, size - start, start)
        # The first line may have been met in its middle.
        first = data.find(b"\n") + 1 if start else 0
        whole = whole_length(data[first:])
        if whole or not start:
            return start + first + whole
        if length > MOST_LINE_BYTES:
            raise ResultsError(f"{TRIALS} is damaged", where=str(path), remedy=DAMAGED_REMEDY)
        length *= 16


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ResultsError(
            f"{name!r} can't name a file",
            remedy="use letters, digits, '.', '_' and '-', beginning with a letter or digit",
        )
    return name


@contextlib.contextmanager
def _worded(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ResultsError(
            f"can't write results: {error.strerror or error}",
            where=str(error.filename or path),
            remedy=UNWRITABLE_REMEDY,
        ) from error


def keep_asked_pace(path: Path, asked: AskedPace) -> None:
    """Keep how slow the last search of this sweep let the limit to give be.

    Raises:
        ResultsError: it can't be written.
    """
    given = {k: v for k, v in (("slowdown", asked.slowdown), ("throughput", asked.throughput)) if v}
    resolved = read_json(path / RESOLVED)
    if resolved.get("asked", {}) != given:
        with _worded(path):
            write_whole(path / RESOLVED, json_bytes({**resolved, "asked": given}))
