"""The harness's side of a worker that asks before it goes on, so that its limit can be moved."""

from __future__ import annotations

import socket
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

from edgebench.cgroups.interface import Cgroup, Limits

#: The setting of a workload that asks for a limit: bytes beyond what it uses then.
ROOM = "room_bytes"


class LimitControl(AbstractContextManager["LimitControl"]):
    """A connection to a worker, which waits for an answer each time that it asks."""

    def __init__(self) -> None:
        self._ours, self._workers = socket.socketpair()
        # A worker that asks and takes no answer holds nobody up.
        self._ours.setblocking(False)

    @property
    def worker_fd(self) -> int:
        """The worker's end."""
        return self._workers.fileno()

    @property
    def wakes(self) -> Mapping[int, Callable[[], bool]]:
        """What wakes the harness, and what it does then."""
        return {self._ours.fileno(): self._answer}

    def __exit__(self, *_: object) -> None:
        """Close both ends."""
        self._ours.close()
        self._workers.close()

    def applied(self, limits: Limits) -> Limits:
        """Return the limits that the trial's record has.

        ``limits`` are those that it started with.
        """
        return limits

    def _reply(self, data: bytes) -> None:
        """Send the answer.

        Raises:
            ValueError: the worker asks again and again, and takes no answer.
        """
        try:
            self._ours.send(data)
        except BlockingIOError:
            raise ValueError("it asks to go on and takes no answer") from None

    @abstractmethod
    def _answer(self) -> bool:
        """Answer the worker; False: it asks no more.

        Raises:
            CgroupError: the kernel refused the limit.
        """


class LimitAtBase(LimitControl):
    """Limits a trial, once its worker asks, to what it uses then; the answer is the limit in bytes.

    Args:
        cgroup: the trial's.
        room_bytes: how much more it may use.
        swap_bytes: the trial's limit of swap, which stays.
    """

    def __init__(self, cgroup: Cgroup, room_bytes: int, swap_bytes: int | None) -> None:
        super().__init__()
        self._cgroup, self._room_bytes, self._swap_bytes = cgroup, room_bytes, swap_bytes
        self._limit_bytes: int | None = None

    def applied(self, limits: Limits) -> Limits:
        """Those with the limit that was set; it starts without one."""
        return replace(limits, memory_bytes=self._limit_bytes)

    def _answer(self) -> bool:
        self._ours.recv(1)
        used = int(self._cgroup.hot_files().usage.read_text(errors="replace"))
        limit = used + self._room_bytes
        self._limit_bytes = self._cgroup.move_memory_limit(limit, self._swap_bytes)
        self._reply(b"%d" % (self._limit_bytes or limit))
        return False
