"""``deepeye-frugal``: as ``deepeye``, but only one network's fully connected part is in memory.

A network's fully connected layers are loaded when those of the network before it have run.
"""

from __future__ import annotations

from edgebench.layers.schedules.deepeye import DeepEye, Lanes


class DeepEyeFrugal(DeepEye):
    """Of the fully connected parts one at a time: less memory, and less that overlaps."""

    def _load_connected(self, lanes: Lanes) -> None:
        for number in range(len(self.networks)):
            if number > 0:
                lanes.order.wait((number - 1, "executed"))
            self._load_part(lanes, number)
