"""The pytest plugin: ``@pytest.mark.edgebench(memory="300M")`` runs a test below a memory limit.

pytest imports this module at each start, so it imports nothing of edgebench until a test is marked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

_MARKER = """\
edgebench(memory, swap="none", slowdown=None, timeout=None, cores=None, cpu_quota=None, \
storage="as-is"): run the test in a process of its own below these limits, and fail if it needs \
more memory, or is slower than `slowdown` times what it takes without a limit."""


@pytest.hookimpl
def pytest_addoption(parser: pytest.Parser) -> None:
    """One option and one key of the ini file."""
    group = parser.getgroup("edgebench", "memory limits (edgebench)")
    group.addoption(
        "--edgebench-disable",
        action="store_true",
        help="Run tests marked edgebench as ordinary tests, without limits.",
    )
    parser.addini(
        "edgebench_required",
        "Fail, instead of skip, tests marked edgebench where no memory limit can be set.",
        type="bool",
        default=False,
    )


@pytest.hookimpl
def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, for ``--strict-markers``."""
    config.addinivalue_line("markers", _MARKER)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a marked test in a process of its own; leave all others to pytest."""
    mark = item.get_closest_marker("edgebench")
    if mark is None or item.config.getoption("--edgebench-disable"):
        return None
    from edgebench.pytest_plugin.limited_test import run_marked

    run_marked(item, nextitem, mark)
    return True


@pytest.hookimpl
def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """With ``-v``: what each marked test needed."""
    if terminalreporter.verbosity < 1:
        return
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    lines = [
        f"{report.nodeid}: {words}"
        for report in reports
        for name, words in report.user_properties
        if name == "edgebench"
    ]
    if lines:
        terminalreporter.section("memory (edgebench)")
    for line in lines:
        terminalreporter.write_line(line)


@pytest.hookimpl
def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the cgroups' scratch folder and swap, if any test was marked."""
    import sys

    if "edgebench.pytest_plugin.limited_test" not in sys.modules:
        return
    from edgebench.pytest_plugin.limited_test import close_session

    close_session(config)
