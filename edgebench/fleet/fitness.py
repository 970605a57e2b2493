"""Whether a machine may take part: its versions, clock, disk and identity; and whether it is equal.

Trials are shared among machines only if the same probes take as long on each: the difference of
their medians is no more than the probes' own spread, or 5 %.
"""

from __future__ import annotations

import platform
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from edgebench import __version__
from edgebench.fleet.inventory import Inventory
from edgebench.fleet.messages import same_version_remedy
from edgebench.scenario.points import Point
from edgebench.units import MIB, format_size

#: Machines whose medians differ by no more than this are equal, however little probes spread.
LEAST_DIFFERENCE = 0.05
PROBES = 3
_MOST_CLOCK_S = 60.0
_LEAST_FREE_BYTES = 512 * MIB
_DESCRIPTION = ("edgebench", "python", "clock_off_s", "boot_id", "free_bytes")

#: Label of a probe's limit → seconds of each trial.
ProbeTimes = Mapping[str, Sequence[float]]


def unfit_reason(described: Mapping[str, Any] | str, *, shared: bool) -> str | None:
    """Why a machine can't take part; None: it can. ``shared``: trials are shared among machines."""
    if isinstance(described, str) or any(key not in described for key in _DESCRIPTION):
        return (
            f"its worker doesn't answer as edgebench {__version__} does ({described}); "
            f"{same_version_remedy(__version__)}"
        )
    if described["edgebench"] != __version__:
        return (
            f"edgebench {described['edgebench']} runs there, {__version__} here; "
            f"{same_version_remedy(__version__)}"
        )
    if shared and _minor(described["python"]) != _minor(platform.python_version()):
        return (
            f"Python {described['python']} runs there, {platform.python_version()} here; trials "
            "are shared only among equal versions: name another one with python = …"
        )
    if abs(off_s := described["clock_off_s"]) > _MOST_CLOCK_S:
        side = "ahead" if off_s > 0 else "behind"
        return f"its clock is {abs(off_s) / 60:.0f} min {side}; set it: timedatectl set-ntp true"
    if (free := described["free_bytes"]) < _LEAST_FREE_BYTES:
        return f"only {format_size(free)} of its disk are free; free some space"
    return None


def failing_reason(name: str, trials: int, said: str) -> str:
    """Why a machine that could not make so many trials in a row gets no more."""
    return (
        f"it could not make {trials} trials in a row, the last because of: {said}; "
        f"edgebench fleet doctor --host {name}"
    )


def same_machines(described: Mapping[str, Mapping[str, Any] | str]) -> dict[str, str]:
    """Machine → the one before it in the inventory that is the same one."""
    seen: dict[str, str] = {}
    found = {}
    for name, answer in described.items():
        boot = "" if isinstance(answer, str) else str(answer.get("boot_id") or "")
        if boot and boot in seen:
            found[name] = seen[boot]
        elif boot:
            seen[boot] = name
    return found


def listed_twice(name: str, other: str, inventory: Inventory) -> str | None:
    """Why a machine that is the same as another one can't take part; None: both are ``local``."""
    if inventory.hosts[name].local and inventory.hosts[other].local:
        return None
    return f"it is the same machine as {other}, listed twice; remove one from the inventory"


def probe_points(points: Sequence[Point]) -> list[Point]:
    """What is tried on each machine: a workload without a limit, and at its middle limit."""
    unlimited = next((point for point in points if point.unlimited), None)
    if unlimited is None:
        return list(points[:1])
    limited = [p for p in points if not p.unlimited and p.same_workload(unlimited)]
    return [unlimited, *limited[len(limited) // 2 :][:1]]


def equal_machines(probes: Mapping[str, ProbeTimes]) -> dict[str, str]:
    """Machine → why it is not mixed with the others; the largest group of equal ones has none."""
    groups = {
        name: [other for other in probes if unequal_words(probes[name], probes[other]) is None]
        for name in probes
    }
    if not groups:
        return {}
    # The first of the inventory, where groups are as large.
    centre = max(groups, key=lambda name: len(groups[name]))
    found = {}
    for name in probes:
        if name not in groups[centre]:
            words = unequal_words(probes[centre], probes[name])
            found[name] = f"it is not equal to {centre}: {words}"
    return found


def unequal_words(reference: ProbeTimes, other: ProbeTimes) -> str | None:
    """How the probes of a machine differ from another one's; None: by no more than they spread."""
    for label, times in reference.items():
        own = other.get(label, ())
        if bool(times) != bool(own):
            return f"the probe at {label} finishes on one of them only"
        if not times:
            continue
        ratio = statistics.median(own) / statistics.median(times)
        spread = max(map(_spread, (times, own)))
        if max(ratio, 1 / ratio) - 1 > max(LEAST_DIFFERENCE, spread):
            return (
                f"the probe at {label} takes {ratio:.2f} times as long, and repeats differ by "
                f"{spread:.0%} only"
            )
    return None


def _spread(times: Sequence[float]) -> float:
    return (max(times) - min(times)) / statistics.median(times)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
