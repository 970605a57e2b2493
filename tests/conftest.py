"""Tests that need what this machine can't give are skipped, with the reason."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from groups import group_of, make_scheduler, write_groups
from hypothesis import HealthCheck, settings
from needs import GUARD, NOT_PURE, is_pure
from shared_sweeps import shared_sweep as shared_sweep
from worker_places import groups_file, join, make_cgroup, make_state, remove_places, use_state

from edgebench.errors import EdgebenchError

if TYPE_CHECKING:
    from edgebench.run.trial.session import Session


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    from edgebench.run.trial.session import open_session

    with open_session() as session:
        yield session


@functools.cache
def why_no_cgroup() -> str | None:
    from edgebench.cgroups.leftovers import Ownership
    from edgebench.cgroups.parent import find_parent

    try:
        with Ownership() as ownership:
            find_parent(ownership)
    except EdgebenchError as error:
        return error.what
    return None


def why_no_root() -> str | None:
    return None if os.geteuid() == 0 else "needs root"


def why_no_swap() -> str | None:
    if shutil.which("mkswap", path="/sbin:/usr/sbin:/bin:/usr/bin") is None:
        return "needs mkswap (apt-get install util-linux)"
    return why_no_root()


def why_no_gpu() -> str | None:
    from edgebench.measures.machine.system_files import why_no_cuda

    if why := why_no_cuda():
        return why[0]
    import torch

    return None if torch.cuda.is_available() else "torch finds no GPU that it can use"


NEEDS = {
    "own_cgroup": why_no_cgroup,
    "gpu": why_no_gpu,
    "root": why_no_root,
    "swap": why_no_swap,
}
#: What ``scripts/test`` selects.
QUICK = "pure or quick"
#: All tests of such a file have a need.
NEVER_QUICK = re.compile(rf"^pytestmark = [^=]*\bmark\.({'|'.join(NOT_PURE)})\b", re.MULTILINE)
#: Extras (pyproject.toml): a machine may be without them.
LIBRARIES = {
    *("torch", "torchvision", "safetensors", "tensorflow", "keras", "onnx", "onnxruntime"),
    *("ai_edge_litert", "transformers", "numpy", "pandas", "seaborn", "scipy"),
    *("pyarrow", "jinja2", "starlette", "uvicorn", "memray"),
    *("selenium", "matplotlib", "yaml"),
}
MISSING = re.compile(r"No module named '(\w+)")
FSYNC = os.fsync


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
    """Signals end what tests start, also where ``nohup`` or a shell (``… &``) ignores them."""
    # Known without xdist, too.
    config.addinivalue_line("markers", "xdist_group(name): goes to the worker of this group")
    for number in (signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    given = getattr(config, "workerinput", {})
    join(given.get("cgroup", ()))
    use_state(given.get("state"))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["cgroup"] = make_cgroup(node.gateway.id)
    node.workerinput["state"] = make_state(node.gateway.id)
    node.workerinput["groups"] = str(groups_file())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return make_scheduler(config, log, groups_file())


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """What this process made for its workers goes."""
    remove_places()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The quick set doesn't load files of which it runs no test: many load an engine."""
    if config.option.markexpr != QUICK or not collection_path.name.startswith("test_"):
        return None
    text = collection_path.read_text()
    return True if NEVER_QUICK.search(text) and "mark.quick" not in text else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A file that needs a library that isn't installed is skipped, by the library's name."""
    report = yield
    missing = MISSING.search(str(report.longrepr)) if report.failed else None
    if missing and missing[1] in LIBRARIES:
        why = (str(collector.path), 0, f"Skipped: needs {missing[1]}")
        return pytest.CollectReport(collector.nodeid, "skipped", why, [])
    return report


def no_sync(_file: int) -> None:
    """In place of ``os.fsync``."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Pure tests first: in no process is an engine loaded before one of them."""
    items.sort(key=lambda item: not is_pure(item))
    for item in filter(is_pure, items):
        item.add_marker("pure")
    if given := getattr(config, "workerinput", None):
        groups = {item.nodeid: group for item in items if (group := group_of(item))}
        # The longest group begins early, so that no worker waits for it in the end.
        items.sort(key=lambda i: not is_pure(i) and groups.get(i.nodeid) != "exclusive")
        write_groups(groups, Path(given["groups"]))
        if torch := sys.modules.get("torch"):
            # Threads of two workers on two cores mostly wait for each other.
            torch.set_num_threads(1)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, why_not in NEEDS.items():
        reason = why_not() if item.get_closest_marker(marker) else None
        if reason:
            pytest.skip(reason)
    # Made-up results would be written to the disk some ten thousand times.
    os.fsync = no_sync if is_pure(item) else FSYNC
    GUARD.watch(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a test that does what it isn't marked for; skip one whose library isn't there."""
    try:
        result = yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name in LIBRARIES and importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}")
        raise
    GUARD.check()
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """What a fixture clears up may need a process."""
    GUARD.rest()
