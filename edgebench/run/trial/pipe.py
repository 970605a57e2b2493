"""A pipe between the harness and a workload."""

from __future__ import annotations

import contextlib
import fcntl
import math
import mmap
import os
from pathlib import Path

from edgebench.results.layout import most_values_in
from edgebench.safe_files import open_empty
from edgebench.workloads.events import RECORDS_BYTES, lines_of, records_in

#: The most that is read of a pipe at a time, and what the kernel shall hold of events.
PIPE_BYTES = 1 << 20


class Pipe:
    """A pipe whose reading end is ours and whose writing end the workload inherits.

    Args:
        cap_bytes: how much is kept.
        size_bytes: how much the kernel shall hold for us.
        copy: a file that gets what is kept as it comes, for who watches meanwhile.
        most_values: of lines of JSON, how many values are kept: each takes far more memory once
            it is parsed.
    """

    def __init__(
        self,
        cap_bytes: int,
        size_bytes: int | None = None,
        copy: Path | None = None,
        most_values: float = math.inf,
    ) -> None:
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        #: Whether the kernel holds as much as was asked for.
        self.is_enlarged = False
        if size_bytes:
            # An unprivileged user may be over its pipe quota: the default size then serves.
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.read_fd, getattr(fcntl, "F_SETPIPE_SZ", 1031), size_bytes)
                self.is_enlarged = True
        self.data = bytearray()
        self.dropped_bytes = self.dropped_lines = 0
        self.ended = False
        self._cap = cap_bytes
        self._most_shown_bytes = 2 * cap_bytes
        self._values_left = most_values
        self._copy = os.fdopen(open_empty(copy), "wb", buffering=0) if copy else None

    def drain(self) -> bytes:
        """All that lies in the pipe now; kept up to the cap."""
        fresh = bytearray()
        with contextlib.suppress(BlockingIOError):
            while len(fresh) < PIPE_BYTES and not self.ended:
                chunk = os.read(self.read_fd, 1 << 16)
                self.ended = not chunk
                fresh += chunk
        self.add(fresh)
        return bytes(fresh)

    def add(self, data: bytes | bytearray) -> None:
        """Keep this too, up to the cap; once something was dropped, all that follows is."""
        self._values_left -= most_values_in(data)
        if self._values_left < 0:
            self._cap = len(self.data)
        room = max(0, self._cap - len(self.data))
        kept, dropped = data[:room], data[room:]
        self.data += kept
        self.show(kept)
        self.dropped_bytes += len(dropped)
        self.dropped_lines += dropped.count(b"\n")

    def forget(self, start: int, end: int, but: bytes) -> bytes:
        """Give up lines that were read, so that others are kept.

        Args:
            start: the byte of the data at which they begin.
            end: the byte at which they end.
            but: lines that begin with this stay.

        Returns:
            All of these lines.
        """
        lines = bytes(self.data[start:end])
        stay = b"".join(one for one in lines.splitlines(keepends=True) if one.startswith(but))
        self.data[start:end] = stay
        self._values_left += most_values_in(lines) - most_values_in(stay)
        return lines

    def show(self, data: bytes | bytearray) -> None:
        """Write to the copy."""
        self._most_shown_bytes -= len(data)
        if self._copy and data and self._most_shown_bytes >= 0:
            # A full disk costs the view, never the trial.
            with contextlib.suppress(OSError):
                self._copy.write(data)

    @property
    def is_whole(self) -> bool:
        """Whether what is kept ends with a whole line."""
        return self.data.endswith(b"\n") or not self.data

    @property
    def takes_more(self) -> bool:
        """Whether there is a copy, and further lines may follow in it."""
        return self._copy is not None and self.is_whole

    def close_writer(self) -> None:
        """Close our copy of the writing end, once the workload has its own."""
        if self.write_fd >= 0:
            os.close(self.write_fd)
            self.write_fd = -1

    def close(self) -> None:
        """Close both ends. Safe to call twice."""
        self.close_writer()
        if self._copy:
            self._copy.close()
            self._copy = None
        if self.read_fd >= 0:
            os.close(self.read_fd)
            self.read_fd = -1


_SIZE_STAYS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class PendingRecords:
    """The memory in which a worker keeps its records until it writes them.

    Its pages are touched here first, so that they are charged to the harness and not to the trial.
    """

    def __init__(self) -> None:
        self.fd = os.memfd_create("edgebench-records", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, RECORDS_BYTES)
        # Cut short by the workload, it would end the harness with SIGBUS.
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, _SIZE_STAYS)
        self._memory = mmap.mmap(self.fd, RECORDS_BYTES)
        self._memory.write(bytes(RECORDS_BYTES))
        #: Where :meth:`fresh` goes on, and how often the worker had emptied the memory by then.
        self._seen = 0, 0

    def lines(self) -> list[bytes]:
        """All of it."""
        return [line.encode() for line in lines_of(records_in(self._memory)[0])]

    def fresh(self) -> bytes:
        """Return the lines since the last call. The worker will write them all the same."""
        records, emptied = records_in(self._memory)
        start = self._seen[0] if self._seen[1] == emptied else 0
        self._seen = len(records), emptied
        return "".join(lines_of(records, start)).encode()

    def close(self) -> None:
        """Give the memory back. Safe to call twice."""
        if self.fd >= 0:
            self._memory.close()
            os.close(self.fd)
            self.fd = -1
