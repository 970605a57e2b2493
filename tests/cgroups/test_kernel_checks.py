"""Whether this kernel enforces a limit: with injected ends of the allocator, and for real."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgebench.cgroups import parent as parent_module
from edgebench.cgroups.interface import Limits
from edgebench.cgroups.parent import ParentCgroup, check_limit
from edgebench.errors import CgroupError

MIB = 1 << 20
KILLED = -signal.SIGKILL


class Cgroup:
    path = Path("/sys/fs/cgroup/edgebench-1")
    limits: Limits | None = None
    removed = False

    def set_limits(self, limits: Limits) -> Limits:
        self.limits = limits
        return limits

    def remove(self) -> None:
        self.removed = True


def checked(monkeypatch: pytest.MonkeyPatch, *codes: int | None) -> tuple[Any, Cgroup, list[int]]:
    """The check where its programs end so: its result or error, its cgroup, what they allocate."""
    left, sizes, cgroup = list(codes), list[int](), Cgroup()

    def allocate(_: object, size_bytes: int) -> int | None:
        sizes.append(size_bytes)
        return left.pop(0)

    monkeypatch.setattr(parent_module, "allocate", allocate)
    parent: Any = SimpleNamespace(create=lambda name: cgroup)
    try:
        result: Any = check_limit(parent)
    except CgroupError as error:
        result = error
    assert cgroup.removed
    return result, cgroup, sizes


def test_less_than_the_limit_ends_well_and_more_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    result, cgroup, sizes = checked(monkeypatch, 0, KILLED)
    assert cgroup.limits == Limits(memory_bytes=64 * MIB, swap_bytes=0)
    assert sizes == [32 * MIB, 96 * MIB]
    assert result == 64 * MIB


@pytest.mark.promise(
    "`edgebench doctor` reports and says what to type: a limit that can be read but is not "
    "enforced."
)
@pytest.mark.parametrize(
    ("codes", "words"),
    [
        # A tighter one above, one that is only shown, one that is reached and not enforced.
        ((KILLED,), "allocating 32.0 MiB under a limit of 64.0 MiB ended with -9"),
        ((0, 0), "allocating 96.0 MiB under a limit of 64.0 MiB ended with 0"),
        ((0, None), "allocating 96.0 MiB under a limit of 64.0 MiB did not end"),
    ],
)
def test_a_limit_that_does_not_hold_is_told(
    monkeypatch: pytest.MonkeyPatch, codes: tuple[int | None, ...], words: str
) -> None:
    error, cgroup, _ = checked(monkeypatch, *codes)
    assert words in error.what
    assert error.where == str(cgroup.path)
    assert "edgebench doctor" in str(error.remedy)


@pytest.mark.own_cgroup
def test_a_limit_is_enforced(parent: ParentCgroup):
    assert check_limit(parent) == 64 * MIB
    assert not list(parent.path.glob(f"edgebench-{os.getpid()}-proof"))
