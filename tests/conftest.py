"""Tests that need what this machine can't give are skipped, with the reason."""

from __future__ import annotations

import functools
import os
import shutil

import pytest

from edgebench.errors import EdgebenchError


@functools.cache
def why_no_cgroup() -> str | None:
    """Why no cgroup can be made here; None if one can."""
    from edgebench.cgroups.leftovers import Ownership
    from edgebench.cgroups.place import find_place

    try:
        with Ownership() as ownership:
            find_place(ownership)
    except EdgebenchError as error:
        return error.what
    return None


def why_no_root() -> str | None:
    """Why what only root may do can't be tested; None if it can."""
    return None if os.geteuid() == 0 else "needs root"


def why_no_swap() -> str | None:
    """Why no swap can be set up here; None if it can."""
    if shutil.which("mkswap", path="/sbin:/usr/sbin:/bin:/usr/bin") is None:
        return "needs mkswap (apt-get install util-linux)"
    return why_no_root()


NEEDS = {"cgroup": why_no_cgroup, "root": why_no_root, "swap": why_no_swap}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a marked test where its need can't be met."""
    for marker, why_not in NEEDS.items():
        reason = why_not() if item.get_closest_marker(marker) else None
        if reason:
            pytest.skip(reason)
