"""Whether a limit took, and what to say where one can't."""

from __future__ import annotations

import os
from pathlib import Path

from edgebench.errors import CgroupError

PAGE = os.sysconf("SC_PAGE_SIZE")


def require_taken(asked: int | None, got: int | None, file: Path) -> None:
    """The kernel rounds down to whole pages; anything else means the limit did not take.

    Raises:
        CgroupError: it didn't; names the file, and what was asked and read back.
    """
    if asked is None or (got is not None and asked - PAGE < got <= asked):
        return
    raise CgroupError(
        f"a limit of {asked} bytes did not take: the kernel says {'max' if got is None else got}",
        where=str(file),
        remedy="choose a limit of whole pages that the kernel can hold",
    )


def require_cores(cores: tuple[int, ...] | None) -> None:
    """Cores that only an affinity will hold must be ones that we have.

    Raises:
        CgroupError: they aren't.
    """
    ours = os.sched_getaffinity(0)
    if lacking := sorted(set(cores or ()) - ours):
        raise CgroupError(
            f"there are no such cores for us: {lacking}",
            remedy=f"choose among {sorted(ours)}",
        )


def no_controller(name: str, what: str) -> CgroupError:
    """The error where a limit needs a controller that can't be had."""
    return CgroupError(
        f"{what} needs the {name} controller, and there is none in the cgroup made here",
        remedy="edgebench doctor says why; leave that limit out to go on without it",
    )
