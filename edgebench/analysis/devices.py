"""The same scenario on several devices: seconds and slowdown at each limit, and which is enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edgebench.errors import ResultsError, UsageError
from edgebench.results.point_facts import point_facts
from edgebench.results.spread import Spread
from edgebench.results.sweep_reader import Sweep
from edgebench.results.workload_key import WorkloadKey

_WORST = float("inf")


@dataclass(frozen=True)
class DevicePoint:
    """One point on one device. ``seconds`` is ``total``'s; None where no trial finished."""

    device: str
    limit_bytes: float | None
    outcomes: Mapping[str, int]
    seconds: Spread | None = None
    slowdown: float | None = None

    @property
    def finished(self) -> bool:
        """Whether all its trials did."""
        return set(self.outcomes) == {"ok"}


@dataclass(frozen=True)
class DevicesRow:
    """One limit of one workload, with a point for each device that has it, in their order."""

    workload: str
    limit_label: str
    points: tuple[DevicePoint, ...]

    def of(self, device: str) -> DevicePoint | None:
        """Return the device's point."""
        return next((point for point in self.points if point.device == device), None)


@dataclass(frozen=True)
class EnoughAnswer:
    """Whether a device is fast enough for a workload.

    ``limit_label`` is its tightest limit that still is; None: none is. ``seconds`` is what it takes
    there.
    """

    device: str
    workload: str
    limit_label: str | None = None
    seconds: float | None = None


def device_rows(sweeps: Sequence[Sweep]) -> list[DevicesRow]:
    """List the limits that at least two devices have, in the order of the first one's points.

    Raises:
        UsageError: there are fewer than two devices.
        ResultsError: no limit of a workload was tried on two.
    """
    devices = list(dict.fromkeys(sweep.device for sweep in sweeps))
    if len(devices) < 2:
        raise UsageError(
            f"all these sweeps are of one device: {', '.join(devices)}",
            remedy="name the sweeps of several, or a folder that holds them: results",
        )
    rows: dict[tuple[WorkloadKey, str], DevicesRow] = {}
    for sweep in sweeps:
        for point in point_facts(sweep):
            # A share's bytes follow from the device's own demand, so the label pairs them.
            key = point.key, point.limits.label
            row = rows.get(key) or DevicesRow(point.workload, point.limits.label, ())
            seconds = point.times_s.get("total")
            figures = (point.limit_bytes, point.outcomes, seconds, point.slowdown)
            here = DevicePoint(sweep.device, *figures)
            rows[key] = replace(row, points=(*row.points, here))
    shared = [row for row in rows.values() if len(row.points) > 1]
    if not shared:
        raise ResultsError(
            "the devices have no point in common: no workload ran at the same limit on two",
            where=", ".join(str(sweep.path) for sweep in sweeps),
            remedy="run one scenario on each: edgebench fleet SCENARIO",
        )
    return shared


def enough_answers(rows: Sequence[DevicesRow], within_s: float) -> list[EnoughAnswer]:
    """Find which devices take at most ``within_s`` for each workload; these come first."""
    answers = []
    for workload in dict.fromkeys(row.workload for row in rows):
        workload_rows = [row for row in rows if row.workload == workload]
        of_devices = []
        for device in dict.fromkeys(point.device for row in workload_rows for point in row.points):
            fast = [
                (point.limit_bytes or _WORST, row.limit_label, point.seconds.median)
                for row in workload_rows
                if (point := row.of(device)) and point.finished and point.seconds
                if point.seconds.median <= within_s
            ]
            of_devices.append(EnoughAnswer(device, workload, *(min(fast)[1:] if fast else ())))
        answers += sorted(of_devices, key=lambda answer: answer.seconds is None)
    return answers
