"""The runtime's pages: what its import makes, and what rounds use of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.slowdown.simulator.references import BEFORE, ReferenceRecorder

#: The import as equal steps, each of which makes memory and uses a part of what those before made:
#: the core, a share of what rounds don't need. Chosen on the faults of imports below their base.
_STEPS, _CORE_SHARE = 12, 0.55
#: Pages apart that rounds use once, when all is loaded and when all was executed once. Chosen on
#: the faults of first rounds.
_AFTER_LOADS, _AFTER_FIRST = 1_470_000, 1_260_000
#: Of the networks' own memory, and of weights that are read in panels, the share that read-ahead
#: does not bring: a fault brings two pages of these. Chosen on counted faults (decision 105).
APART = 0.3


@dataclass(frozen=True)
class RuntimeBase:
    """The runtime's footprint; ``hot_bytes`` of it are used by rounds, the rest by the import.

    ``own_bytes`` more are the networks' own: compiled kernels, and what the allocator keeps. Every
    execution uses them.
    """

    bytes: float
    hot_bytes: float
    own_bytes: float = 0.0


@dataclass(frozen=True)
class RuntimePages:
    """Pieces of the runtime that rounds use: seldom, and the networks' own in every execution.

    Seldom is at the end of loading and of first executions. Each network has its own.
    """

    after_loads: list[int]
    after_first: list[int]
    own: list[list[int]]


def write_import(
    script: ReferenceRecorder, base: RuntimeBase, layers: Sequence[int] = (1,)
) -> RuntimePages:
    """The import; what of the hot part is not used seldom is in use from then on.

    ``layers`` are the networks' numbers of layers, by which they share what is their own.
    """
    shares = [base.own_bytes * count / max(1, sum(layers)) for count in layers]
    part = min(1.0, base.hot_bytes / (_AFTER_LOADS + _AFTER_FIRST))
    seldom = RuntimePages(
        script.new(int(part * _AFTER_LOADS), scattered=1.0),
        script.new(int(part * _AFTER_FIRST), scattered=1.0),
        [script.new(int(share), scattered=APART) for share in shares],
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
