"""Checks of the machine's sensors: which are read while a trial runs, and why others are not."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from edgebench.measures.machine.sensors.places import find_sensors
from edgebench.measures.machine.sensors.sensor import KINDS, Sensors
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.run.checks.base import CheckTarget, Observation, registered_check

_MOST_NAMED = 4
ROOT_REMEDY = "run edgebench as root, or give yourself the right to read the file that is named"


def _check(kind: str) -> Callable[[CheckTarget], Observation]:
    def look(target: CheckTarget) -> Observation:
        """What of this kind is read, and what its energy is of."""
        found = _sensors(target.machine)
        names = [sensor.name for sensor in found.sensors if sensor.quantity.name == kind]
        reason = found.absent.get(kind)
        if not names:
            if reason and kind in found.for_root:
                return Observation(reason, ROOT_REMEDY)
            raise UnreadableError(reason or "none found")
        said = ", ".join(names[:_MOST_NAMED])
        if len(names) > _MOST_NAMED:
            said += f" and {len(names) - _MOST_NAMED} more"
        if kind == "power" and found.domains:
            said = f"energy of {found.domains[0].name}; {said}"
        return Observation(f"{said}; {reason}" if reason else said)

    return look


@lru_cache(maxsize=1)
def _sensors(machine: SystemFiles) -> Sensors:
    """Looked for once for all kinds."""
    return find_sensors(machine)


for _kind in KINDS:
    registered_check(f"{_kind} sensors")(_check(_kind))
