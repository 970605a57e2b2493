"""One execution of a test in a cgroup of its own, and what pytest reported there."""

from __future__ import annotations

import gzip
import os
import sys
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from edgebench.cgroups.kernel_checks import check_limit
from edgebench.identity import caller_identity
from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.trial.output_rate import echo_to
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import Session, open_session
from edgebench.run.trial.trial import TrialFiles, run_trial
from edgebench.text import safe_json

_CHILD = Path(__file__).with_name("child.py")
_NUMBERS = count()


class ChildWarning(msgspec.Struct, frozen=True):
    """A warning as the other process sent it. ``category``: its module and its name."""

    message: str
    category: tuple[str, str]
    filename: str
    lineno: int
    nodeid: str


def warn_again(item: pytest.Item, said: Sequence[ChildWarning]) -> None:
    """Report each warning as if it came up in this process."""
    for one in said:
        category = _category(*one.category)
        message = warnings.WarningMessage(
            message=_made(category, one.message),
            category=category,
            filename=one.filename,
            lineno=one.lineno,
        )
        item.ihook.pytest_warning_recorded.call_historic(
            kwargs={
                "warning_message": message,
                "when": "runtest",
                "nodeid": one.nodeid,
                "location": None,
            }
        )


def _category(module: str, kind: str) -> type[Warning]:
    """Return the category if this process has it, else one of the same name.

    The name was chosen by a process with fewer rights: nothing is imported for it, and what is no
    warning is not called.
    """
    found = vars(sys.modules[module]).get(kind) if module in sys.modules else None
    if isinstance(found, type) and issubclass(found, Warning):
        return found
    return type(kind, (UserWarning,), {"__module__": module})


def _made(category: type[Warning], message: str) -> Warning:
    try:
        return category(message)
    except Exception:
        # It takes more than a message.
        return UserWarning(message)


@dataclass(frozen=True)
class _Opened:
    session: Session
    stack: ExitStack


_KEY = pytest.StashKey[_Opened]()


def shared_session(config: pytest.Config) -> Session:
    """Return the session, in which memory limits are known to be enforced.

    Raises:
        MachineError, CgroupError: none can be had here.
    """
    if (opened := config.stash.get(_KEY, None)) is None:
        with ExitStack() as stack:
            echo = echo_to(sys.stdout) if config.getoption("capture") == "no" else None
            session = stack.enter_context(open_session(echo=echo))
            check_limit(session.setup.parent)
            opened = config.stash[_KEY] = _Opened(session, stack.pop_all())
    return opened.session


def close_session(config: pytest.Config) -> None:
    """Remove all that the session made. Safe to call without one."""
    if (opened := config.stash.get(_KEY, None)) is not None:
        del config.stash[_KEY]
        opened.stack.close()


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
        """It came to its end, and all went well."""
        return self.finished and all(report.passed for report in self.reports)

    @property
    def seconds(self) -> dict[str, float]:
        """How long its fixtures (``setup``) and the test itself (``call``) took."""
        return {one.when: one.duration for one in self.reports if one.when in ("setup", "call")}

    @property
    def killed(self) -> bool:
        """Whether the kernel killed it, or a process of it, for memory."""
        return self.record.outcome == "oom-killed"


def run_limited(
    item: pytest.Item, session: Session, limits: LimitSetting, timeout_s: float | None
) -> LimitedRun:
    """Run the test once in a fresh interpreter below the limits.

    Raises:
        MachineError, CgroupError: the swap or the cgroup can't be made.
    """
    session.setup.storage.use(limits.swap_kind, limits.swap_bytes, limits.storage)
    settings = {
        "kind": "function",
        "function": item.nodeid,
        "script": str(_CHILD),
        "argument": _told(item),
        "cwd": str(item.config.invocation_params.dir),
    }
    request = TrialRequest(f"test{next(_NUMBERS)}", "test", 0, 0, settings, limits, timeout_s)
    files = TrialFiles.scratch(session.folder)
    run = LimitedRun(
        run_trial(session.setup, request, files), files.log.read_text(errors="replace")
    )
    for event in _events(files.events):
        _take(run, event.get("what"), event.get("data"), item)
    return run


def _told(item: pytest.Item) -> dict[str, Any]:
    """Return what the pytest inside has to know: the test, and the command line that led to it."""
    config = item.config
    args = [str(arg) for arg in config.invocation_params.args]
    # Captured outside, where output survives a kill.
    args += ["--capture=no", *(["--no-cov"] if hasattr(config.option, "no_cov") else [])]
    worker = {"workerid": "master", "workercount": 1, "testrunuid": uuid.uuid4().hex}
    return {
        "nodeid": item.nodeid,
        "path": str(item.path),
        "args": args,
        "sys_path": [entry or os.getcwd() for entry in sys.path],  # noqa: PTH109
        "basetemp": _folder_for(config),
        "workerinput": {**worker, **getattr(config, "workerinput", {})},
    }


def _folder_for(config: pytest.Config) -> str | None:
    """Below pytest's own folder, so that it counts as this run's; None: a new one."""
    factory = getattr(config, "_tmp_path_factory", None)
    if factory is None or caller_identity() is not None:
        return None
    return str(factory.getbasetemp() / f"edgebench{next(_NUMBERS)}")


def _events(file: Path) -> Iterator[Mapping[str, Any]]:
    for line in gzip.decompress(file.read_bytes()).splitlines():
        try:
            event = safe_json(line)
        except ValueError:
            # Cut short by the kill.
            continue
        if isinstance(event, dict) and event.get("event") == "pytest":
            yield event


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
