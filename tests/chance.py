"""What keeps tests from failing by chance: on a slow machine, and beside other tests."""

from __future__ import annotations

import contextlib
import fnmatch
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
#: In an emulated machine a process may need a second to begin.
HELD_S = (0.2, 2.0, 20.0)


def given_time(check: Callable[[float], T], seconds: Sequence[float] = HELD_S) -> T:
    """What the check gives; repeated with a longer time where it fails.

    For programs that must hold something until another process has seen it.
    """
    for held_s in seconds[:-1]:
        # A figure that nobody saw is None.
        with contextlib.suppress(AssertionError, TypeError):
            return check(held_s)
    return check(seconds[-1])


def cgroups_named(pattern: str) -> list[Path]:
    """The cgroups with such a name, in all hierarchies.

    Those of other tests come and go meanwhile: ``Path.glob`` raises an error then.
    """
    found = []
    for top, names, _ in os.walk("/sys/fs/cgroup"):
        found += [Path(top, name) for name in fnmatch.filter(names, pattern)]
        # Another test makes a thousand, one in the other, and ``os.walk`` recurses.
        if top.count("/") > 100:
            names.clear()
    return found
