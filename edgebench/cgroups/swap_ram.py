"""How much of the machine's RAM swap takes: what lies compressed in zram, or in zswap's pool.

No cgroup is charged for pages in zram. Of zswap, version 2 charges them to the group whose pages
they are (``zswap`` in ``memory.stat``); version 1 charges nobody, and shows only the sum of all.
Linux: Documentation/admin-guide/blockdev/zram.rst, mm/zswap.c, mm/memcontrol.c.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgebench.cgroups.swap import SwapState
from edgebench.swap_areas import read_swap_areas

_ROOT = Path("/")
#: In ``mm_stat``: the data that lies in it, and all that it takes, its free room included.
_HELD, _USED = 0, 2
#: The same of zswap's pool in ``/proc/meminfo`` (Linux 5.19).
_POOL = ("Zswapped:", "Zswap:")
_ALL = "of all programs, since whose pages they are is not shown"


@dataclass(frozen=True)
class Compressed:
    """How much lies compressed in RAM, and what it takes there, in bytes."""

    held_bytes: int
    taken_bytes: int

    @property
    def share(self) -> float:
        """What a page takes, of its size."""
        return self.taken_bytes / self.held_bytes if self.held_bytes else 0.0


@dataclass(frozen=True)
class SwapRam:
    """RAM that swap takes beside a cgroup's charge.

    Args:
        kind: ``zram`` or ``zswap``.
        read: what lies there now; None where that can't be read any more.
        doubt: what is not known of it; empty for nothing.
    """

    kind: str
    read: Callable[[], Compressed | None]
    doubt: str = ""


def swap_ram(state: SwapState, version: int, root: Path = _ROOT) -> SwapRam | None:
    """What a trial with this swap takes beside its charge; None: nothing.

    Args:
        state: the swap that it has.
        version: of the cgroups.
        root: where the machine's files are.
    """
    if state.kind == "none":
        return None
    if state.kind == "zram" and state.device:
        own = [state.device.name]
        return SwapRam("zram", lambda: _in_zram(root, own))
    areas = read_swap_areas(root / "proc/swaps") or {}
    devices = [path.name for path in areas if path.name.startswith("zram")]
    if state.kind == "system" and devices:
        return SwapRam("zram", _growth(lambda: _in_zram(root, devices)), _ALL)
    if version == 1 and _uses_zswap(root):
        return SwapRam("zswap", _growth(lambda: _in_zswap(root)), _ALL)
    return None


def _in_zram(root: Path, devices: list[str]) -> Compressed | None:
    try:
        texts = [(root / "sys/block" / name / "mm_stat").read_bytes() for name in devices]
        numbers = [list(map(int, text.split())) for text in texts]
        return Compressed(sum(one[_HELD] for one in numbers), sum(one[_USED] for one in numbers))
    except (OSError, ValueError, IndexError):
        return None


def _uses_zswap(root: Path) -> bool:
    with contextlib.suppress(OSError):
        return (root / "sys/module/zswap/parameters/enabled").read_bytes().strip() == b"Y"
    return False


def _in_zswap(root: Path) -> Compressed | None:
    """All that is in its pool."""
    with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
        lines = map(str.split, (root / "proc/meminfo").read_text(errors="replace").splitlines())
        sizes = {words[0]: int(words[1]) << 10 for words in lines if words[0] in _POOL}
        return Compressed(*(sizes[name] for name in _POOL))
    return None


def _growth(read: Callable[[], Compressed | None]) -> Callable[[], Compressed | None]:
    """What came since now."""
    before = read()

    def grown() -> Compressed | None:
        now = read()
        if now is None or before is None:
            return None
        held, taken = now.held_bytes - before.held_bytes, now.taken_bytes - before.taken_bytes
        return Compressed(max(0, held), max(0, taken))

    return grown
