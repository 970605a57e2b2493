"""A Dask worker that hardly ever wakes while a trial runs, and has no web server."""

from __future__ import annotations

from typing import Any

import dask
from distributed import Worker


class QuietWorker(Worker):  # type: ignore[misc]
    """A worker whose heartbeats keep the inventory's interval, whatever the scheduler answers."""

    def start_http_server(self, *words: Any, **named: Any) -> None:
        """Start none: it would answer everybody who reaches it, without a key."""

    async def heartbeat(self) -> None:
        """One heartbeat; the scheduler's answer sets the interval, which is set back."""
        await super().heartbeat()
        interval_s = float(dask.config.get("edgebench.heartbeat-s", 30))
        self.periodic_callbacks["heartbeat"].callback_time = 1000 * interval_s
