"""A fleet's scheduler and its workers: Dask's own, without their web servers.

Those would answer everybody who reaches them, without a key. As a program this is the scheduler;
its words are JSON with its address and TLS files.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import Any

import dask
from distributed import Scheduler, Worker
from distributed.security import Security


class QuietWorker(Worker):  # type: ignore[misc]
    """A worker whose heartbeats keep the inventory's interval, whatever the scheduler answers."""

    def start_http_server(self, *words: Any, **named: Any) -> None:
        """Start none."""

    async def heartbeat(self) -> None:
        """One heartbeat; the scheduler's answer sets the interval, which is set back."""
        await super().heartbeat()
        interval_s = float(dask.config.get("edgebench.heartbeat-s", 30))
        self.periodic_callbacks["heartbeat"].callback_time = 1000 * interval_s


class QuietScheduler(Scheduler):  # type: ignore[misc]
    """A scheduler without a web server."""

    def start_http_server(self, *words: Any, **named: Any) -> None:
        """Start none."""


async def run_scheduler(host: str, port: int, ca: str, cert: str, key: str) -> None:
    """Run it until it is shut down, or a signal ends it."""
    files = {"tls_ca_file": ca, "tls_scheduler_cert": cert, "tls_scheduler_key": key}
    security = Security(require_encryption=True, **files)
    async with QuietScheduler(host=f"tls://{host}", port=port, security=security) as scheduler:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, lambda: asyncio.ensure_future(scheduler.close()))
        await scheduler.finished()


if __name__ == "__main__":
    asyncio.run(run_scheduler(**json.loads(sys.argv[1])))
