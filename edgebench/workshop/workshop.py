"""Set up what trials are measured with, and take all of it away again."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgebench.cgroups.identity import caller_identity
from edgebench.cgroups.leftovers import Ownership, clear_leftovers
from edgebench.cgroups.place import find_place
from edgebench.cgroups.swap import SwapControl
from edgebench.measures.gnu_time import find_gnu_time
from edgebench.trial.trial import Apparatus


@dataclass(frozen=True)
class Workshop:
    """The apparatus, the swap it may set up, and a scratch folder; all gone at the end."""

    apparatus: Apparatus
    swap: SwapControl
    folder: Path
    cleared: tuple[str, ...]


@contextmanager
def open_workshop(
    *,
    interval_s: float = 0.001,
    stat_interval_s: float = 0.01,
    echo: Callable[[bytes], None] | None = None,
) -> Iterator[Workshop]:
    """Clear what dead predecessors left, then set up; whatever is made is claimed first.

    Raises:
        CgroupError: no cgroup can be made here (says why, and what mends it).
        MachineError: no GNU time.
    """
    gnu_time = find_gnu_time()
    cleared = clear_leftovers()
    with Ownership() as ownership:
        place = find_place(ownership)
        folder = Path(tempfile.gettempdir()) / f"edgebench-{secrets.token_hex(6)}"
        ownership.claim("temp-folder", str(folder))
        folder.mkdir(mode=0o700)
        identity = caller_identity()
        if identity:
            # The workload reaches the files in it that are the caller's, and can add none.
            folder.chmod(0o711)
        apparatus = Apparatus(place, gnu_time, identity, interval_s, stat_interval_s, echo)
        with SwapControl(ownership) as swap:
            yield Workshop(apparatus, swap, folder, tuple(cleared))
