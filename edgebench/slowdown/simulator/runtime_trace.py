"""The runtime's pages: what its import makes, and what rounds use of them."""

from __future__ import annotations

from dataclasses import dataclass

from edgebench.slowdown.simulator.references import BEFORE, ReferenceRecorder

#: The import as equal steps, each of which makes memory and uses a part of what those before made:
#: the core, a share of what rounds don't need. Chosen on the faults of imports below their base.
_STEPS, _CORE_SHARE = 12, 0.55
#: Pages apart that rounds use once, when all is loaded and when all was executed once. Chosen on
#: the faults of first rounds.
_AFTER_LOADS, _AFTER_FIRST = 1_470_000, 1_260_000


@dataclass(frozen=True)
class RuntimeBase:
    """The runtime's footprint; ``hot_bytes`` of it are used by rounds, the rest by the import."""

    bytes: float
    hot_bytes: float


@dataclass(frozen=True)
class RuntimePages:
    """Pieces of the runtime that rounds use seldom: at the end of loading, of first executions."""

    after_loads: list[int]
    after_first: list[int]


def write_import(script: ReferenceRecorder, base: RuntimeBase) -> RuntimePages:
    """The import; what of the hot part is not used seldom is in use from then on."""
    part = min(1.0, base.hot_bytes / (_AFTER_LOADS + _AFTER_FIRST))
    seldom = RuntimePages(
        script.new(int(part * _AFTER_LOADS), scattered=True),
        script.new(int(part * _AFTER_FIRST), scattered=True),
    )
    idle = (base.bytes - base.hot_bytes) / _STEPS
    core: list[int] = []
    for step in range(_STEPS):
        if step == _STEPS // 2:
            script.touch(seldom.after_loads, BEFORE, write=True)
            script.touch(seldom.after_first, BEFORE, write=True)
        script.touch(script.new(int(idle * (1 - _CORE_SHARE))), BEFORE, write=True)
        own = script.new(int(idle * _CORE_SHARE))
        script.touch(own, BEFORE, write=True)
        script.touch(core, BEFORE)
        core += own
    used = base.hot_bytes - part * (_AFTER_LOADS + _AFTER_FIRST)
    script.touch(script.new(int(used), is_busy=True), BEFORE, write=True)
    return seldom
