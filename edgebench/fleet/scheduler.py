"""A fleet's scheduler, as a program: its words are JSON with its address and TLS files.

Dask's own program for it also starts a web server, without a key, for everybody who reaches it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import Any

from distributed import Scheduler
from distributed.security import Security


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
