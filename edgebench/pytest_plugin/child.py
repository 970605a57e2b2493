"""pytest for one test, below its limit: ``python child.py SPEC``, run by path.

It gets the command line of the pytest that starts it, so options, conftest files and plugins are
the same, and behaves as a worker of xdist does: it writes no reports and no cache of its own, but
sends each report as one JSON line. It imports the standard library and pytest alone, so that its
memory is pytest's and the test's.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

#: Options of pytest, xdist and others that concern the pytest that started this one.
_OVERRIDDEN = {
    "dist": "no",
    "distload": False,
    "edgebench_disable": True,
    "looponfail": False,
    "maxfail": 0,
    "maxprocesses": None,
    "numprocesses": None,
    "trace": False,
    "tx": [],
    "usepdb": False,
}


class OneTest:
    """The plugin that lets pytest run one test and sends what it reports.

    Args:
        test: its node id, the file it is in, what an xdist worker is told, and a folder for
            temporary files.
        descriptors: the events' descriptor, and that of the cgroup's usage.
    """

    def __init__(self, test: dict[str, Any], descriptors: dict[str, Any]) -> None:
        self._test = test
        self._events: int = descriptors["events"]
        self._usage: int | None = descriptors["usage"]
        self._pid = os.getpid()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> Iterator[None]:
        """Before xdist and others read them: replace what the command line says of other tests."""
        for name, value in _OVERRIDDEN.items():
            if hasattr(config.option, name):
                setattr(config.option, name, value)
        config.option.basetemp = self._test["basetemp"]
        config.args = [self._test["path"]]
        config.workerinput = self._test["workerinput"]  # type: ignore[attr-defined]
        self._config = config
        yield

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Note the memory now: pytest and its plugins are there, and no test module."""
        reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            # Only what the test itself prints is its output.
            reporter._tw._file = open(os.devnull, "w")  # noqa: PTH123, SIM115
        self._send("started", self._usage_bytes())

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the one test, whatever characters its id has."""
        items[:] = [item for item in items if item.nodeid == self._test["nodeid"]][:1]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note the memory now: the test's module and all that it imports are there."""
        self._send("collected" if session.items else "not-found", self._usage_bytes())

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep an error of the module, or of a conftest file, in this process alone."""
        if report.failed:
            self._send("problem", str(report.longrepr))

    def pytest_internalerror(self, excrepr: Any) -> None:
        """Keep an error of pytest or of a plugin."""
        self._send("problem", str(excrepr))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of the test's set-up, call or teardown."""
        hook = self._config.hook
        self._send("report", hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        """Keep a warning of the test; those of the start were reported by the pytest outside."""
        if when != "runtest":
            return
        sent = {
            "message": str(warning_message.message),
            "category": warning_message.category.__qualname__,
            "filename": warning_message.filename,
            "lineno": warning_message.lineno,
        }
        self._send("warning", {**sent, "nodeid": nodeid, "location": location})

    def _usage_bytes(self) -> int | None:
        return None if self._usage is None else int(os.pread(self._usage, 32, 0))

    def _send(self, what: str, data: Any) -> None:
        # What the test forked may come here too.
        if os.getpid() != self._pid:
            return
        event = {"event": "pytest", "t_ns": time.monotonic_ns(), "what": what, "data": data}
        line = json.dumps(event, default=str).encode() + b"\n"
        while line:
            line = line[os.write(self._events, line) :]


def main(spec: str) -> int:
    """Run the test; the exit code is pytest's."""
    given = json.loads(spec)
    test = given["argument"]
    sys.path[:] = test["sys_path"]
    sys.argv = ["pytest", *test["args"]]
    return int(pytest.main(test["args"], plugins=[OneTest(test, given["descriptors"])]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
