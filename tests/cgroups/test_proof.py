"""The proof that a limit bites, and what it says where one doesn't."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch

import pytest

from edgebench.cgroups.interface import Cgroup, Limits
from edgebench.cgroups.place import Place
from edgebench.cgroups.proof import prove_limit
from edgebench.errors import CgroupError

pytestmark = pytest.mark.cgroup


def cgroups_in(place: Place) -> set[Path]:
    """The cgroups of this process in the place; others may measure beside us."""
    return set(place.path.glob(f"edgebench-{os.getpid()}-proof"))


def test_a_limit_bites(place: Place):
    """The allocator above the limit is killed at the limit; nothing is left."""
    proof = prove_limit(place)
    assert proof.outcome == "oom-killed"
    assert proof.peak_bytes is None or proof.peak_bytes <= proof.limit_bytes < proof.touched_bytes
    assert not cgroups_in(place)


@pytest.mark.parametrize(
    ("really", "words"),
    [(Limits(), "should have been killed"), (Limits(16 << 20, 0), "should have fitted")],
)
def test_a_limit_that_is_not_what_it_says(place: Place, really: Limits, words: str):
    """A limit that is shown but not enforced, or a tighter one above, is told before a sweep."""
    apply = type(place.create("kind")).apply
    place_create = place.create

    def create(name: str, accounting: bool = True) -> Cgroup:
        made = place_create(name, accounting)
        patcher = patch.object(made, "apply", lambda limits: apply(made, really) and limits)
        patcher.start()
        return made

    with patch.object(place, "create", create), pytest.raises(CgroupError, match=words) as caught:
        prove_limit(place)
    assert caught.value.remedy
    assert not cgroups_in(place)
