"""A Dask worker that hardly ever wakes while a trial runs."""

from __future__ import annotations

import dask
from distributed import Worker


class QuietWorker(Worker):  # type: ignore[misc]
    """A worker whose heartbeats keep the inventory's interval, whatever the scheduler answers."""

    async def heartbeat(self) -> None:
        """One heartbeat; the scheduler's answer sets the interval, which is set back."""
        await super().heartbeat()
        interval_s = float(dask.config.get("edgebench.heartbeat-s", 30))
        self.periodic_callbacks["heartbeat"].callback_time = 1000 * interval_s
