"""The heap as its profilers see it: tcmalloc's, memray's, massif's; never in a timed trial."""

from __future__ import annotations

from edgebench.measures.heap.massif import Massif
from edgebench.measures.heap.memray import Memray
from edgebench.measures.heap.tcmalloc import Tcmalloc

#: One of each, with its usual settings.
STRATEGIES = (Tcmalloc(), Memray(), Massif())
