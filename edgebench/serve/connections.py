"""Limits for connections that have not sent a request yet: every user of the machine can open one.

A connection becomes the owner's with its first complete request, since one that is refused is
closed after the answer (:mod:`edgebench.serve.security`).
"""

from __future__ import annotations

import asyncio
import logging
import time

from uvicorn.protocols.http.h11_impl import H11Protocol

#: So many may wait for their first request: far fewer than a process may have open files.
MOST_WAITING = 64
#: How long a connection may take until its first request is complete.
REQUEST_TIMEOUT_S = 10.0
#: The same message is logged again after this time at the earliest.
_LOG_AGAIN_S = 600.0


class LimitedConnection(H11Protocol):
    """A connection that is closed if its first request takes too long or too many others wait."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start its time; of those that wait, close the ones that waited longest."""
        super().connection_made(transport)
        self._made_s = self.loop.time()
        self.loop.call_later(REQUEST_TIMEOUT_S, self._close_if_waiting)
        others = [one for one in self.connections if isinstance(one, LimitedConnection)]
        waiting = sorted((one for one in others if one.scope is None), key=lambda one: one._made_s)
        for one in waiting[:-MOST_WAITING]:
            one._close_if_waiting()

    def _close_if_waiting(self) -> None:
        if self.scope is None:
            self.transport.abort()


class RepeatedMessages(logging.Filter):
    """Drops a message that was logged a short time before: anybody can cause very many."""

    def __init__(self) -> None:
        super().__init__()
        self._logged_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log it. The first line without its values decides, so there are few."""
        message, now = str(record.msg).partition("\n")[0], time.monotonic()
        if now - self._logged_s.get(message, -_LOG_AGAIN_S) < _LOG_AGAIN_S:
            return False
        self._logged_s[message] = now
        return True


#: One for all servers of a process: they share the loggers.
_REPEATED = RepeatedMessages()


def limit_log() -> None:
    """Log what the server and its event loop say of connections once in a while."""
    for name in ("asyncio", "uvicorn.error"):
        logging.getLogger(name).addFilter(_REPEATED)
