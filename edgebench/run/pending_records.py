"""What a worker has recorded and not written yet, seen from the harness."""

from __future__ import annotations

import fcntl
import mmap
import os

from edgebench.workloads.record_buffer import RECORDS_BYTES, lines_of, records_in

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
        """The lines of what came since the last call. The worker will write them all the same."""
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
