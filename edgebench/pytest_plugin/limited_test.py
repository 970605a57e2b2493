"""A marked test: run below its limits, where needed also without, and reported as its own.

What pytest inside the limit reports (passes, failures with their traceback, skips, expected
failures) becomes the test's reports here. Reports made here go through pytest's own hook, so that
an ``xfail`` also covers a kill.
"""

from __future__ import annotations

import gzip
import os
import statistics
import sys
import uuid
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from inspect import signature
from itertools import count
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from _pytest.skipping import evaluate_xfail_marks, xfailed_key

from edgebench.answers.table import GAP, factor
from edgebench.answers.trials import crash_words, kill_lines, memory_words, slowdown_lines
from edgebench.cgroups.parent import check_limit
from edgebench.errors import EdgebenchError, MachineError, UsageError
from edgebench.processes import caller_identity
from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.trial.command import AskedLimits, asked_limits
from edgebench.run.trial.process import echo_to
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import Session, open_session
from edgebench.run.trial.trial import TrialFiles, run_trial
from edgebench.text import choice_hint, parse_duration, safe_json

#: A marker's arguments.
_KEYS = (*signature(asked_limits).parameters, "slowdown", "timeout")
#: How often a test is run that seems too slow, with and without the limit.
_REPEATS = 3
_STOPS = (pytest.exit.Exception, KeyboardInterrupt)
_CHILD = Path(__file__).with_name("child.py")
_NUMBERS = count()


class ChildWarning(msgspec.Struct, frozen=True):
    """A warning as the other process sent it. ``category``: the name of its class."""

    message: str
    category: str
    filename: str
    lineno: int
    nodeid: str


def _warn_again(item: pytest.Item, sent: Sequence[ChildWarning]) -> None:
    """Report each warning as if it came up here, its category in words.

    A process with fewer rights chose the category: nothing is imported or called for it.
    """
    for warning in sent:
        message = UserWarning(f"{warning.category}: {warning.message}")
        again = warnings.WarningMessage(message, UserWarning, warning.filename, warning.lineno)
        about = {"when": "runtest", "nodeid": warning.nodeid, "location": None}
        item.ihook.pytest_warning_recorded.call_historic(kwargs={"warning_message": again, **about})


_KEY = pytest.StashKey[tuple[Session, ExitStack]]()


def _shared_session(config: pytest.Config) -> Session:
    """Return the session, in which memory limits are known to be enforced.

    Raises:
        MachineError, CgroupError: none can be had here.
    """
    if _KEY not in config.stash:
        with ExitStack() as stack:
            echo = echo_to(sys.stdout) if config.getoption("capture") == "no" else None
            session = stack.enter_context(open_session(echo=echo))
            check_limit(session.setup.parent)
            config.stash[_KEY] = session, stack.pop_all()
    return config.stash[_KEY][0]


def close_session(config: pytest.Config) -> None:
    """Remove all that the session made. Safe to call without one."""
    if _KEY in config.stash:
        _, stack = config.stash[_KEY]
        del config.stash[_KEY]
        stack.close()


@dataclass
class LimitedRun:
    """A test that ran below a limit, or without one.

    ``started_bytes`` is the cgroup's usage with the interpreter and pytest alone;
    ``collected_bytes`` with the test's module and its imports; None: it was killed before.
    """

    record: TrialRecord
    output: str = ""
    started_bytes: int | None = None
    collected_bytes: int | None = None
    found: bool = True
    problem: str | None = None
    reports: list[pytest.TestReport] = field(default_factory=list)
    warnings: list[ChildWarning] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        """Whether the test came to its end, passed or not."""
        return any(report.when == "teardown" for report in self.reports)

    @property
    def passed(self) -> bool:
        """Whether it came to its end, and all went well."""
        return self.finished and all(report.passed for report in self.reports)

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of its fixtures (``setup``) and of the test itself (``call``)."""
        return {
            report.when: report.duration
            for report in self.reports
            if report.when in ("setup", "call")
        }

    @property
    def killed(self) -> bool:
        """Whether the kernel killed it, or a process of it, for memory."""
        return self.record.outcome == "oom-killed"


def _run_limited(
    item: pytest.Item, session: Session, limits: LimitSetting, timeout_s: float | None
) -> LimitedRun:
    """Run the test once in a fresh interpreter below the limits.

    Raises:
        MachineError, CgroupError: the swap or the cgroup can't be made.
    """
    session.setup.storage.use(limits.swap_kind, limits.swap_bytes, limits.storage)
    config, number = item.config, next(_NUMBERS)
    worker = {"workerid": "master", "workercount": 1, "testrunuid": uuid.uuid4().hex}
    # Below pytest's own folder, so that it counts as this run's.
    factory = None if caller_identity() else getattr(config, "_tmp_path_factory", None)
    args = [str(arg) for arg in config.invocation_params.args]
    # Captured outside, where output survives a kill.
    args += ["--capture=no", *(["--no-cov"] if hasattr(config.option, "no_cov") else [])]
    settings = {
        "kind": "function",
        "function": item.nodeid,
        "script": str(_CHILD),
        "argument": {
            "nodeid": item.nodeid,
            "path": str(item.path),
            "args": args,
            "sys_path": [entry or os.getcwd() for entry in sys.path],  # noqa: PTH109
            "basetemp": factory and str(factory.getbasetemp() / f"edgebench{number}"),
            "workerinput": {**worker, **getattr(config, "workerinput", {})},
        },
        "cwd": str(config.invocation_params.dir),
    }
    request = TrialRequest(f"test{number}", "test", 0, 0, settings, limits, timeout_s)
    files = TrialFiles.scratch(session.folder)
    record = run_trial(session.setup, request, files)
    run = LimitedRun(record, files.log.read_text(errors="replace"))
    for line in gzip.decompress(files.events.read_bytes()).splitlines():
        try:
            event = safe_json(line)
        except ValueError:
            # Cut short by the kill.
            continue
        if isinstance(event, dict) and event.get("event") == "pytest":
            _take(run, event.get("what"), event.get("data"), item)
    return run


def _take(run: LimitedRun, what: object, data: Any, item: pytest.Item) -> None:
    """Add what an event says. One of another shape is passed over: the test may have sent it."""
    try:
        if what == "report":
            run.reports.append(_report(data, item))
        elif what == "warning":
            run.warnings.append(msgspec.convert(data, ChildWarning))
        elif what == "problem":
            run.problem = f"{run.problem}\n\n{data}" if run.problem else str(data)
        elif what == "started":
            run.started_bytes = msgspec.convert(data, int | None)
        elif what in ("collected", "not-found"):
            run.collected_bytes = msgspec.convert(data, int | None)
            run.found = what == "collected"
    except msgspec.ValidationError as error:
        run.problem = f"it sent what pytest does not send: {error}"


class _SentReport(msgspec.Struct):
    """What is relied on in a report of the pytest inside."""

    nodeid: str
    location: tuple[str, int | None, str]
    outcome: Literal["passed", "failed", "skipped"]
    when: Literal["setup", "call", "teardown"]
    duration: float
    keywords: dict[str, Any]
    sections: list[tuple[str, str]]
    user_properties: list[tuple[str, Any]]


def _report(data: Any, item: pytest.Item) -> pytest.TestReport:
    """Return the report that was sent.

    Raises:
        msgspec.ValidationError: it is none of this test, or can't be shown.
    """
    sent = msgspec.convert(data, _SentReport)
    try:
        report = item.ihook.pytest_report_from_serializable(config=item.config, data=data)
        # JSON made lists of them.
        report.location, report.user_properties = sent.location, sent.user_properties
        report.sections = sent.sections
        if report.skipped and isinstance(report.longrepr, list):
            path, line, reason = report.longrepr
            report.longrepr = str(path), int(line), str(reason)
        # Made once here: one that can't be shown would end the pytest outside.
        _ = report.longreprtext
    except Exception as error:
        raise msgspec.ValidationError(f"a report can't be read: {error}") from error
    if not isinstance(report, pytest.TestReport) or sent.nodeid != item.nodeid:
        raise msgspec.ValidationError("a report is not of this test")
    return report


def _marked_limits(mark: pytest.Mark) -> tuple[AskedLimits, float | None, float | None]:
    """Return the limits, the most slowdown allowed, and how long each of its runs may take.

    Raises:
        UsageError: an argument that is unknown or not possible; says which.
    """
    given = dict(mark.kwargs)
    if len(mark.args) > 1:
        raise _error("takes one value without a name: the memory", 'write memory="300M"')
    if mark.args:
        given.setdefault("memory", mark.args[0])
    if unknown := sorted(given.keys() - set(_KEYS)):
        raise _error(f"has no argument {unknown[0]!r}", choice_hint(unknown[0], _KEYS))
    memory, slowdown, timeout = (given.pop(key, None) for key in ("memory", "slowdown", "timeout"))
    if type(memory) not in (str, int):
        raise _error("sets no memory limit", 'add one: memory="300M", or "75%" of its demand')
    if slowdown is not None and not (type(slowdown) in (int, float) and slowdown > 1):
        raise _error(f"can't allow slowdown={slowdown!r}", "give a factor above 1: slowdown=2.0")
    asked = asked_limits(memory, **given)
    if asked.setting.memory_bytes is None and asked.share is None:
        raise _error("sets no memory limit", 'give a size instead of "max": memory="300M"')
    return asked, slowdown, None if timeout is None else parse_duration(timeout)


def _error(what: str, remedy: str) -> UsageError:
    return UsageError(f"the marker edgebench {what}", remedy=remedy)


def run_marked(item: pytest.Item, nextitem: pytest.Item | None, mark: pytest.Mark) -> None:
    """Run and report the test, and take down what only it and earlier tests shared here."""
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    test = _MarkedTest(item)
    call = pytest.CallInfo.from_call(lambda: test.run(mark), "call", reraise=_STOPS)
    reports = test.reports(call)
    # Fixtures of earlier tests are open here that the next one does not share.
    left = pytest.CallInfo.from_call(
        lambda: item.session._setupstate.teardown_exact(nextitem), "teardown", reraise=_STOPS
    )
    if left.excinfo is not None:
        reports.append(hook.pytest_runtest_makereport(item=item, call=left))
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


class _MarkedTest:
    """One marked test, and its runs so far."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._shown: LimitedRun | None = None
        self._slowdown: float | None = None

    def run(self, mark: pytest.Mark) -> None:
        """Run it as the marker asks; returns if its own reports are the answer.

        Raises:
            pytest.fail.Exception: says what it needs.
            pytest.skip.Exception: no limit can be set here.
        """
        words, skipped = None, None
        try:
            words = self._failure(*_marked_limits(mark))
        except MachineError as error:
            if self._item.config.getini("edgebench_required"):
                words = f"no memory limit can be set here: {error}"
            else:
                skipped = f"no memory limit can be set here: {error.what}"
        except EdgebenchError as error:
            words = str(error)
        # Not in the handlers: pytest would show the error twice.
        if skipped:
            pytest.skip(skipped)
        if words:
            pytest.fail(words, pytrace=False)

    def _failure(
        self, asked: AskedLimits, allowed: float | None, timeout_s: float | None
    ) -> str | None:
        """Run it, in turns without the limit where a slowdown is compared.

        Return what it is to fail with; None: what it reported itself is the answer.
        """
        session = _shared_session(self._item.config)

        def run(limits: LimitSetting) -> LimitedRun:
            self._shown = _run_limited(self._item, session, limits, timeout_s)
            return self._shown

        limits, unlimited = asked.setting, None
        if asked.share is not None or allowed is not None:
            unlimited = run(asked.unlimited)
            if not unlimited.passed:
                return None if unlimited.finished else crash_words(unlimited)
            limits = asked.resolved(unlimited.record)
        limited = run(limits)
        if limited.killed:
            words = kill_lines(limited, unlimited or run(asked.unlimited))
            self._shown = limited
            return words
        if not limited.passed:
            return None if limited.finished else crash_words(limited)
        if unlimited is None or allowed is None:
            return None
        below, free = [limited], [unlimited]
        # One pair may be chance.
        while len(below) < _REPEATS and _slowdown_of(below, free) > allowed:
            for setting, runs in ((asked.unlimited, free), (limits, below)):
                runs.append(again := run(setting))
                if again.killed or not again.passed:
                    is_cut = not again.killed and not again.finished
                    reason = f"did not pass each time: {again.record.reason}"
                    return crash_words(again) if is_cut else reason
        self._shown, self._slowdown = limited, _slowdown_of(below, free)
        if self._slowdown > allowed:
            return slowdown_lines(below, free, self._slowdown, allowed)
        return None

    def reports(self, call: pytest.CallInfo[None]) -> list[pytest.TestReport]:
        """Return those of the last run, or the failure or skip, with what the test used."""
        run, item = self._shown, self._item
        if run is not None:
            _warn_again(item, run.warnings)
        if call.excinfo is None and run is not None:
            reports = run.reports
        else:
            item.stash[xfailed_key] = evaluate_xfail_marks(item)
            reports = [item.ihook.pytest_runtest_makereport(item=item, call=call)]
            for when, place in (("setup", 0), ("teardown", 2)):
                passed = pytest.CallInfo.from_call(lambda: None, when)  # type: ignore[arg-type]
                reports.insert(place, pytest.TestReport.from_item_and_call(item, passed))
        if run is None:
            return reports
        slower = "" if self._slowdown is None else f"{GAP}{factor(self._slowdown)}"
        words = memory_words(run) + slower
        for report in reports:
            # JUnit's file takes them from the teardown, the terminal from the call.
            report.user_properties.append(("edgebench", words))
            if report.when == "call" or not report.passed:
                report.sections.append(("edgebench", words))
                if run.output and item.config.getoption("capture") != "no":
                    report.sections.append(("Captured output", run.output))
        return reports


def _slowdown_of(runs: Sequence[LimitedRun], unlimited: Sequence[LimitedRun]) -> float:
    """Return time of fixtures and test at the limit / without it, of medians."""
    slow, fast = (
        statistics.median(sum(run.seconds.values()) for run in each) for each in (runs, unlimited)
    )
    return slow / fast if fast else 1.0
