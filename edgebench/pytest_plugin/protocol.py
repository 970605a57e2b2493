"""How a marked test is run: below its limits, where needed also without, and reported as its own.

What pytest inside the limit reports (passes, failures with their traceback, skips, expected
failures) becomes the test's reports here. Reports made here go through pytest's own hook, so that
an ``xfail`` also covers a kill.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from _pytest.skipping import evaluate_xfail_marks, xfailed_key

from edgebench.answers.table import GAP, factor
from edgebench.answers.trials import (
    crash_words,
    kill_lines,
    memory_words,
    slowdown_lines,
)
from edgebench.errors import EdgebenchError, MachineError, UsageError
from edgebench.pytest_plugin.limited_test import LimitedRun, run_limited, shared_session, warn_again
from edgebench.records import LimitSetting
from edgebench.run.trial.command import AskedLimits, asked_limits
from edgebench.text import choice_hint
from edgebench.units import parse_duration

_KEYS = ("memory", "swap", "slowdown", "timeout", "cores", "cpu_quota", "storage")


#: How often a test is run that seems too slow, with and without the limit: one pair is chance.
_REPEATS = 3
_STOPS = (pytest.exit.Exception, KeyboardInterrupt)


@dataclass(frozen=True)
class MarkedLimits:
    """The limits, the most slowdown allowed, and how long each of its runs may take."""

    asked: AskedLimits
    slowdown: float | None
    timeout_s: float | None


def marked_limits(mark: pytest.Mark) -> MarkedLimits:
    """Return the marker, checked.

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
    return MarkedLimits(asked, slowdown, None if timeout is None else parse_duration(timeout))


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
        try:
            self._run(marked_limits(mark))
        except EdgebenchError as error:
            ended = error
        else:
            return
        # Not in the handler: pytest would show the error twice.
        if not isinstance(ended, MachineError):
            pytest.fail(str(ended), pytrace=False)
        if self._item.config.getini("edgebench_required"):
            pytest.fail(f"no memory limit can be set here: {ended}", pytrace=False)
        pytest.skip(f"no memory limit can be set here: {ended.what}")

    def _run(self, wanted: MarkedLimits) -> None:
        session = shared_session(self._item.config)

        def run(limits: LimitSetting) -> LimitedRun:
            self._shown = run_limited(self._item, session, limits, wanted.timeout_s)
            return self._shown

        limits, unlimited = wanted.asked.setting, None
        if wanted.asked.share is not None or wanted.slowdown is not None:
            unlimited = run(wanted.asked.unlimited)
            if not self._is_comparable(unlimited):
                return
            limits = wanted.asked.resolved(unlimited.record)
        limited = run(limits)
        if limited.killed:
            words = kill_lines(limited, unlimited or run(wanted.asked.unlimited))
            self._shown = limited
            pytest.fail(words, pytrace=False)
        if self._is_comparable(limited) and unlimited is not None and wanted.slowdown is not None:
            self._compare(run, limited, unlimited, wanted)

    def _is_comparable(self, run: LimitedRun) -> bool:
        """Whether it passed; a failure of its own is reported as that."""
        if not run.finished:
            pytest.fail(crash_words(run), pytrace=False)
        return run.passed

    def _compare(
        self,
        run: Callable[[LimitSetting], LimitedRun],
        limited: LimitedRun,
        unlimited: LimitedRun,
        wanted: MarkedLimits,
    ) -> None:
        """Fail if it is slower than allowed; repeated first, for one pair may be chance."""
        allowed = wanted.slowdown or 0.0
        below, free = [limited], [unlimited]
        while len(below) < _REPEATS and slowdown_of(below, free) > allowed:
            for limits, runs in ((wanted.asked.unlimited, free), (limited.record.limits, below)):
                runs.append(again := run(limits))
                if again.killed or not self._is_comparable(again):
                    pytest.fail(f"did not pass each time: {again.record.reason}", pytrace=False)
        self._shown, self._slowdown = limited, slowdown_of(below, free)
        if self._slowdown > allowed:
            words = slowdown_lines(below, free, self._slowdown, allowed)
            pytest.fail(words, pytrace=False)

    def reports(self, call: pytest.CallInfo[None]) -> list[pytest.TestReport]:
        """Those of the last run, or the failure or skip that was raised, with set-up and end."""
        run, item = self._shown, self._item
        if run is not None:
            warn_again(item, run.warnings)
        if call.excinfo is None and run is not None:
            reports = run.reports
        else:
            item.stash[xfailed_key] = evaluate_xfail_marks(item)
            made = item.ihook.pytest_runtest_makereport(item=item, call=call)
            reports = [_passed(item, "setup"), made, _passed(item, "teardown")]
        for report in reports:
            self._describe(report)
        return reports

    def _describe(self, report: pytest.TestReport) -> None:
        """Add what the test printed, and what it used."""
        if (run := self._shown) is None:
            return
        words = memory_words(run)
        if self._slowdown is not None:
            words += f"{GAP}{factor(self._slowdown)}"
        # JUnit's file takes them from the teardown, the terminal from the call.
        report.user_properties.append(("edgebench", words))
        if report.when == "call" or not report.passed:
            report.sections.append(("edgebench", words))
            if run.output and self._item.config.getoption("capture") != "no":
                report.sections.append(("Captured output", run.output))


def _passed(item: pytest.Item, when: str) -> pytest.TestReport:
    call = pytest.CallInfo.from_call(lambda: None, when)  # type: ignore[arg-type]
    return pytest.TestReport.from_item_and_call(item, call)


def slowdown_of(runs: Sequence[LimitedRun], unlimited: Sequence[LimitedRun]) -> float:
    """Time of fixtures and test at the limit / without it, of medians."""
    whole = [
        statistics.median(sum(one.seconds.values()) for one in them) for them in (runs, unlimited)
    ]
    return whole[0] / whole[1] if whole[1] else 1.0
