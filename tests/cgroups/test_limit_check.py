"""The check that limits are enforced, and its error where one is not."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch

import pytest

from edgebench.cgroups.interface import Cgroup, Limits
from edgebench.cgroups.kernel_checks import check_limit
from edgebench.cgroups.parent import ParentCgroup
from edgebench.errors import CgroupError

pytestmark = pytest.mark.own_cgroup


def cgroups_in(parent: ParentCgroup) -> set[Path]:
    """The check's cgroups of this process; other processes may have their own."""
    return set(parent.path.glob(f"edgebench-{os.getpid()}-proof"))


def test_a_limit_is_enforced(parent: ParentCgroup):
    """The allocator above the limit is killed at the limit; nothing is left."""
    proof = check_limit(parent)
    assert proof.outcome == "oom-killed"
    assert proof.peak_bytes is None or proof.peak_bytes <= proof.limit_bytes < proof.touched_bytes
    assert not cgroups_in(parent)


@pytest.mark.promise(
    "`edgebench doctor` reports and says what to type: a limit that can be read but is not "
    "enforced."
)
@pytest.mark.parametrize(
    ("really", "words"),
    [(Limits(), "should have been killed"), (Limits(16 << 20, 0), "should have succeeded")],
)
def test_a_limit_that_is_not_what_it_says(parent: ParentCgroup, really: Limits, words: str):
    """A limit that is shown but not enforced, or a tighter one above, is told before a sweep."""
    set_limits = type(parent.create(f"{os.getpid()}-kind")).set_limits
    parent_create = parent.create

    def create(name: str, accounting: bool = True) -> Cgroup:
        made = parent_create(name, accounting)
        patcher = patch.object(
            made, "set_limits", lambda limits: set_limits(made, really) and limits
        )
        patcher.start()
        return made

    with patch.object(parent, "create", create), pytest.raises(CgroupError, match=words) as caught:
        check_limit(parent)
    assert caught.value.remedy
    assert not cgroups_in(parent)
