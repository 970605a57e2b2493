"""Schedules: in which order, and by how many threads, layers are loaded and executed.

EdgeCaffe's six schedules, with memory given to a layer only when it is loaded; and ``stream``.
"""

from __future__ import annotations

from edgebench.layers.schedules.admission import Admission
from edgebench.layers.schedules.base import Schedule
from edgebench.layers.schedules.bulk import Bulk
from edgebench.layers.schedules.deepeye import DeepEye
from edgebench.layers.schedules.deepeye_frugal import DeepEyeFrugal
from edgebench.layers.schedules.linear import Linear
from edgebench.layers.schedules.partial import Partial
from edgebench.layers.schedules.stream import Stream

SCHEDULES: dict[str, type[Schedule]] = {
    "linear": Linear,
    "bulk": Bulk,
    "partial": Partial,
    "deepeye": DeepEye,
    "deepeye-frugal": DeepEyeFrugal,
    "admission": Admission,
    "stream": Stream,
}

__all__ = ["SCHEDULES", "Schedule"]
