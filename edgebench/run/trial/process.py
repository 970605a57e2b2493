"""A workload's process: started, its output and events read, waited for or timed out.

The harness sleeps while the workload runs: it wakes 20 times a second to drain the event
pipe (made large enough for that), 5 times while nothing comes, and at once when the process ends
or prints. What a program gets done in a second is read from its output.
"""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import math
import mmap
import os
import re
import selectors
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

from edgebench.results.layout import most_values_in, parse_line
from edgebench.safe_files import open_empty
from edgebench.text import printable
from edgebench.workloads.events import RECORDS_BYTES, lines_of, records_in

#: The most output kept of a workload; the rest is counted and dropped.
OUTPUT_CAP_BYTES = 1 << 20
#: The most kept of events; so many values take up to 700 MiB once they are parsed.
_EVENTS_CAP_BYTES, _MOST_EVENT_VALUES = 128 << 20, 6_000_000
#: Between two looks at the pipes, and at most while nothing comes.
_WAKE_S, _QUIET_WAKE_S = 0.05, 0.2
#: Who watches sees spans of a long round this late.
_SHOWN_EACH_S = 0.3


@dataclass(frozen=True)
class ProcessEnd:
    """How a process ended. ``returncode`` is negative for a signal; ``started_ns`` is monotonic.

    ``stopped``: it was ended at the time at which a program that never ends has to be.
    """

    returncode: int
    timed_out: bool
    started_ns: int
    wall_s: float
    stopped: bool = False


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
        stay = b"".join(line for line in lines.splitlines(keepends=True) if line.startswith(but))
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


class WorkloadProcess:
    """One workload's process, its event pipe and its output, from start to end.

    ``events_copy`` is a file that gets the events as they come.
    """

    def __init__(
        self, echo: Callable[[bytes], None] | None = None, events_copy: Path | None = None
    ) -> None:
        self.events = Pipe(_EVENTS_CAP_BYTES, PIPE_BYTES, events_copy, _MOST_EVENT_VALUES)
        self.output = Pipe(OUTPUT_CAP_BYTES)
        self.records = PendingRecords()
        self._shown_s = time.monotonic()
        self._echo = echo

    def run(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        pass_fds: Sequence[int],
        timeout_s: float | None,
        stdin: int = subprocess.DEVNULL,
        end: Callable[[int], None],
        wakes: Mapping[int, Callable[[], bool]] = MappingProxyType({}),
        look: Callable[[], None] = lambda: None,
        lingers: Callable[[], bool] = lambda: False,
    ) -> ProcessEnd:
        """Run the command to its end, its time limit or an exception.

        ``stdin`` is the descriptor of its input. ``look`` is called now and then while it runs.
        ``end`` is called with its process, which may have ended, to kill it and all that it left.
        ``wakes``: descriptors that wake the harness as soon as they can be read, and what is called
        then; once that returns False, it is not called again. ``lingers``: once the process has
        ended, whether others of it are waited for, up to the time limit.
        """
        started_ns = time.monotonic_ns()
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=self.output.write_fd,
            stderr=self.output.write_fd,
            env=dict(env),
            pass_fds=pass_fds,
            start_new_session=True,
        )
        self.events.close_writer()
        self.output.close_writer()
        timed_out = False
        try:
            timed_out = not self._wait(process, timeout_s, wakes, look)
            while not timed_out and lingers():
                time.sleep(_WAKE_S)
                self._drain()
                look()
                timed_out = (time.monotonic_ns() - started_ns) / 1e9 >= (timeout_s or math.inf)
        finally:
            wall_s = (time.monotonic_ns() - started_ns) / 1e9
            end(process.pid)
            process.kill()
            returncode = process.wait()
            self._drain()
            # What the worker had recorded and not written at its end.
            tail = bytes(self.events.data[-PIPE_BYTES:])
            written = set(tail.splitlines(keepends=True))
            pending = [line for line in self.records.lines() if line not in written]
            if pending and not self.events.is_whole:
                pending.insert(0, b"\n")
            self.events.add(b"".join(pending))
        return ProcessEnd(returncode, timed_out, started_ns, wall_s)

    def _wait(
        self,
        process: subprocess.Popen[bytes],
        timeout_s: float | None,
        wakes: Mapping[int, Callable[[], bool]],
        look: Callable[[], None],
    ) -> bool:
        deadline = time.monotonic() + timeout_s if timeout_s else float("inf")
        wait_s = _WAKE_S
        with _watching(process.pid, self.output.read_fd) as (selector, sees_end):
            # A pipe that holds little would stop the workload.
            longest_s = _QUIET_WAKE_S if sees_end and self.events.is_enlarged else _WAKE_S
            for descriptor, called in wakes.items():
                selector.register(descriptor, selectors.EVENT_READ, called)
            # It stays a zombie until it is waited for, so that its accounts can be read.
            ends = os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
            while os.waitid(*ends) is None:
                if time.monotonic() >= deadline:
                    return False
                woken = selector.select(min(wait_s, max(0.0, deadline - time.monotonic())))
                came = self._drain(selector)
                look()
                wait_s = _WAKE_S if came or woken else min(2 * wait_s, longest_s)
                for key, _ in woken:
                    if key.data and not key.data():
                        selector.unregister(key.fileobj)
        return True

    def _drain(self, selector: selectors.BaseSelector | None = None) -> bool:
        """Read both pipes; whether something was in them."""
        now = time.monotonic()
        events = bool(self.events.drain())
        if events:
            self._shown_s = now
        elif self.events.takes_more and now - self._shown_s > _SHOWN_EACH_S:
            # Who watches also sees what has been pending for a while.
            self._shown_s = now
            self.events.show(self.records.fresh())
        fresh = self.output.drain()
        if fresh and self._echo:
            self._echo(fresh)
        if selector and self.output.ended:
            # A closed pipe is always readable: leave it out, or the harness spins.
            with contextlib.suppress(KeyError):
                selector.unregister(self.output.read_fd)
        return events or bool(fresh)

    def close(self) -> None:
        """Close the pipes. Safe to call twice."""
        self.events.close()
        self.output.close()
        self.records.close()

    def event_list(self, start: int = 0) -> tuple[list[dict[str, Any]], int]:
        """Return the events as they came, and how many lines were none (garbage, torn by a kill).

        ``start`` is the byte of the pipe's data to begin with.
        """
        return events_of(bytes(self.events.data[start:]))

    def output_text(self) -> str:
        """Return what the workload printed, up to the cap, with a line on what was dropped."""
        text = bytes(self.output.data).decode(errors="replace")
        if self.output.dropped_bytes:
            text += f"\n[edgebench: {self.output.dropped_bytes} more bytes dropped]\n"
        return text


def events_of(lines: bytes) -> tuple[list[dict[str, Any]], int]:
    """Return the events in lines, and how many lines were none."""
    read = list(map(parse_line, lines.splitlines()))
    events = [event for event in read if event and isinstance(event.get("event"), str)]
    return events, len(read) - len(events)


@contextlib.contextmanager
def _watching(pid: int, output_fd: int) -> Iterator[tuple[selectors.BaseSelector, bool]]:
    """Yield a selector that wakes on output and, where the kernel has pidfds (5.3), on the end.

    The second value is whether it wakes on the end.
    """
    with selectors.DefaultSelector() as selector:
        selector.register(output_fd, selectors.EVENT_READ)
        try:
            pid_fd = os.pidfd_open(pid)
        except OSError:
            yield selector, False
            return
        selector.register(pid_fd, selectors.EVENT_READ)
        try:
            yield selector, True
        finally:
            os.close(pid_fd)


#: Why a throughput is missing.
NO_LINE = "it printed nothing; output that is held back in a buffer shows too late"
UNBUFFERED = "let it print at once: python3 -u, or stdbuf -oL"
NO_NUMBER = "no line of its output has a number where the pattern looks for one"
#: Of a longer line only the beginning is searched.
_LINE_LENGTH = 1000


class OutputRate:
    """Counts lines of output as they come.

    Args:
        pattern: a regular expression with one group, a number that is a rate by itself, as
            ``([\\d.]+) tokens/s``. Without it, lines are counted.
    """

    def __init__(self, pattern: str | None = None) -> None:
        self._pattern = pattern
        self._began = time.monotonic()
        self._first_s: float | None = None
        self._first_lines = self._lines = 0

    def beside(self, echo: Callable[[bytes], None] | None) -> Callable[[bytes], None]:
        """Return what is called with output as it comes: it is counted, and echoed."""

        def both(data: bytes) -> None:
            count = data.count(b"\n")
            if self._first_s is None and count:
                self._first_s, self._first_lines = time.monotonic() - self._began, count
            self._lines += count
            if echo:
                echo(data)

        return both

    def per_second(self, wall_s: float, output: str) -> tuple[float | None, str]:
        """Return the median of the numbers that the pattern finds, or lines per second; or why not.

        Lines count from the first on: until then the program starts.

        Args:
            wall_s: how long the program ran.
            output: what it printed, as far as it was kept.
        """
        if self._pattern:
            rates = []
            for line in output.splitlines():
                for match in re.finditer(self._pattern, line[:_LINE_LENGTH]):
                    with contextlib.suppress(ValueError):
                        rates.append(float((match[1] or "").replace(",", "")))
            known = [rate for rate in rates if rate]
            return (statistics.median(known), "") if known else (None, NO_NUMBER)
        if self._first_s is None:
            return None, NO_LINE
        later = self._lines - self._first_lines
        if later and wall_s > self._first_s:
            return later / (wall_s - self._first_s), ""
        # All came at once: only the whole time tells anything.
        return (self._lines / wall_s, "") if wall_s > 0 else (None, NO_LINE)


def echo_to(stream: TextIO) -> Callable[[bytes], None]:
    """Return what writes a workload's output to the stream as it comes.

    A pipe or a file gets the same bytes. A terminal would obey the control codes in them: it gets
    those as ``\\x1b``, but for newlines, tabs, and the carriage returns of progress bars.
    """
    # A character may come in two pieces.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    binary = getattr(stream, "buffer", None)

    def show(data: bytes) -> None:
        if stream.isatty():
            stream.write("\r".join(map(printable, decoder.decode(data).split("\r"))))
        elif binary is None:
            # A notebook's stream has none: text it is.
            stream.write(decoder.decode(data))
        else:
            stream.flush()
            binary.write(data)
            binary.flush()
        stream.flush()

    return show
