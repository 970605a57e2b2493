"""What torch's own allocator hands out and takes back, as its profiler tells it."""

from __future__ import annotations

import json
from pathlib import Path

from edgebench.measures.inside import ALLOCATIONS
from edgebench.workloads.profiled_view import MARKER, ProfiledView


class TorchView(ProfiledView):
    """Writes torch's allocations to a file."""

    def __init__(self, folder: Path) -> None:
        super().__init__(with_memory=True)
        self._file = folder / ALLOCATIONS

    def close(self) -> None:
        """Write every allocation (bytes; a free is negative) and boundary, on one clock in ns."""
        if not self.running:
            return
        allocations: list[tuple[int, int]] = []
        boundaries: list[tuple[int, int]] = []
        for event in self.stopped().profiler.kineto_results.events():
            name = event.name()
            if name == "[memory]":
                allocations.append((event.start_ns(), event.nbytes()))
            elif name.startswith(MARKER):
                boundaries.append((event.start_ns(), int(name.removeprefix(MARKER))))
        told = {"allocations": sorted(allocations), "boundaries": sorted(boundaries)}
        self._file.write_text(json.dumps(told))
