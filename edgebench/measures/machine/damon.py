"""DAMON: the kernel's monitor of accesses, and what its schemes take back from memory.

A scheme with the action ``pageout`` pages out, whatever a trial's limit, what was not accessed for
a time. See the kernel's ``Documentation/admin-guide/mm/damon/usage.rst``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.measures.machine.system_files import SystemFiles, UnreadableError

#: Where DAMON's monitors are set up and switched.
KDAMONDS = "sys/kernel/mm/damon/admin/kdamonds"
#: The action that takes memory from processes.
PAGE_OUT = "pageout"
#: What a monitor's ``state`` is told, so that it writes its schemes' statistics anew.
_REFRESH = "update_schemes_stats"


@dataclass(frozen=True)
class Scheme:
    """What a monitor that is on does with some of the memory.

    Args:
        monitor: the folder of its monitor, which has its ``state``.
        folder: its own.
        action: as ``pageout``.
        idle_s: so long nothing has accessed what it takes; None: not known.
        filters: what it is allowed or not, as ``no anon`` or ``only unmapped``, in their order.
    """

    monitor: str
    folder: str
    action: str
    idle_s: float | None
    filters: tuple[str, ...]


def schemes(machine: SystemFiles) -> list[Scheme]:
    """Those of all monitors that are on; those that we may not read are left out."""
    found = []
    for state in machine.each(f"{KDAMONDS}/*/state"):
        monitor = _path(machine, state.parent)
        try:
            if machine.text(f"{monitor}/state") != "on":
                continue
            actions = machine.each(f"{monitor}/contexts/*/schemes/*/action")
            found += [_scheme(machine, monitor, _path(machine, one.parent)) for one in actions]
        except UnreadableError:
            continue
    return found


def _path(machine: SystemFiles, path: Path) -> str:
    return str(path.relative_to(machine.root))


def _scheme(machine: SystemFiles, monitor: str, folder: str) -> Scheme:
    try:
        aggregation = f"{folder}/../../monitoring_attrs/intervals/aggr_us"
        age = machine.number(f"{folder}/access_pattern/age/min")
        idle_s = age * machine.number(aggregation) / 1e6
    except UnreadableError:
        idle_s = None
    return Scheme(
        monitor, folder, machine.text(f"{folder}/action"), idle_s, tuple(_filters(machine, folder))
    )


def _filters(machine: SystemFiles, folder: str) -> list[str]:
    """On older kernels, without ``allow``, each filter keeps out what it matches."""
    found = []
    for kind in machine.each(f"{folder}/*filters/*/type"):
        one = _path(machine, kind.parent)
        try:
            matching = machine.text(f"{one}/matching") == "Y"
            allow = machine.text(f"{one}/allow") == "Y"
        except UnreadableError:
            allow = False
        word = machine.text(f"{one}/type")
        found.append(f"{'only' if allow == matching else 'no'} {word}")
    return found


def describe(machine: SystemFiles, threads: list[str]) -> dict[str, Any]:
    """What DAMON does, as the environment records it.

    Args:
        machine: the machine's files.
        threads: its threads that run.

    Returns:
        ``running`` (the threads), ``actions`` of its schemes; where one pages out, ``idle_s``, the
        least time after which it does, and ``filters``.

    Raises:
        UnreadableError: the kernel has none, or it is not for us and no thread of it runs.
    """
    if not threads:
        # Its files tell that there is none; a kernel without them says why.
        machine.number(f"{KDAMONDS}/nr_kdamonds")
    found = schemes(machine)
    told: dict[str, Any] = {"running": threads, "actions": sorted({one.action for one in found})}
    pages_out = [one for one in found if one.action == PAGE_OUT]
    if pages_out:
        told["idle_s"] = least_idle_s(pages_out)
        told["filters"] = sorted({word for one in pages_out for word in one.filters})
    return told


def least_idle_s(pages_out: list[Scheme]) -> float | None:
    """The shortest time after which one of them takes what is idle; None: of none it is known."""
    return min((one.idle_s for one in pages_out if one.idle_s is not None), default=None)


def paged_out_bytes(machine: SystemFiles, pages_out: list[Scheme]) -> int:
    """What these schemes have paged out since they began, of the whole machine's memory.

    Waits for each monitor's next look at memory: half a second, say.

    Raises:
        UnreadableError: only root may ask for it, or the kernel doesn't count it.
    """
    for monitor in {one.monitor for one in pages_out}:
        try:
            (machine.root / monitor / "state").write_text(_REFRESH)
        except OSError as error:
            raise UnreadableError(f"DAMON's statistics: {error.strerror}") from error
    return sum(machine.number(f"{one.folder}/stats/sz_applied") for one in pages_out)
