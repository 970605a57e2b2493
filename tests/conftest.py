"""Tests that need what this machine can't give are skipped, with the reason."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

from edgebench.errors import EdgebenchError


@functools.cache
def why_no_cgroup() -> str | None:
    """Why no cgroup can be made here; None if one can."""
    from edgebench.cgroups.leftovers import Ownership
    from edgebench.cgroups.parent import find_parent

    try:
        with Ownership() as ownership:
            find_parent(ownership)
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


def why_no_gpu() -> str | None:
    """Why nothing can be computed on a GPU here; None if it can."""
    from edgebench.measures.machine.cuda_presence import why_no_cuda

    if why := why_no_cuda():
        return why[0]
    import torch

    return None if torch.cuda.is_available() else "torch finds no GPU that it can use"


#: What these mark looks at, or changes, what there is but once: never two of them at a time.
ONE_AT_A_TIME = ("cgroup", "gpu", "root", "swap")
NEEDS = {"cgroup": why_no_cgroup, "gpu": why_no_gpu, "root": why_no_root, "swap": why_no_swap}


# No test asserts seconds, and a second worker or a small board makes any of them slow. Inputs are
# the same each time; with EDGEBENCH_FUZZ they are others.
settings.register_profile(
    "any-speed",
    deadline=None,
    derandomize="EDGEBENCH_FUZZ" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any-speed")


def pytest_configure(config: pytest.Config) -> None:
    """Ctrl-C works in what tests start, also where a shell started us deaf to it (``… &``)."""
    # Known without xdist, too.
    config.addinivalue_line("markers", "xdist_group(name): goes to the worker of this group")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def group_of(item: pytest.Item, alone: bool, shared: bool) -> str:
    """Tests of one group run on one worker: all that share the machine, the browser, a file."""
    if not alone and item.get_closest_marker("browser"):
        return "browser"
    return "machine" if alone or shared else item.nodeid.split("::")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Beside other workers: a file on one of them, all files that share the machine on one.

    A test with a group of its own stays in it.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    alone = {item for item in items if any(map(item.get_closest_marker, ONE_AT_A_TIME))}
    shared = {item.path for item in alone}
    for item in items:
        if not item.get_closest_marker("xdist_group"):
            group = group_of(item, item in alone, item.path in shared)
            item.add_marker(pytest.mark.xdist_group(group))
    if torch := sys.modules.get("torch"):
        # Threads of two workers on two cores mostly wait for each other.
        torch.set_num_threads(1)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a marked test where its need can't be met."""
    for marker, why_not in NEEDS.items():
        reason = why_not() if item.get_closest_marker(marker) else None
        if reason:
            pytest.skip(reason)
