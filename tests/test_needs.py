"""What the guard on tests refuses, and what it allows."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import types
from pathlib import Path

import pytest
from needs import Guard

pytestmark = pytest.mark.own_cgroup


class _Test:
    """As much of a test as the guard looks at: its marks."""

    def __init__(self, *marks: str) -> None:
        self._marks = marks

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self._marks else None


def _starts_a_process() -> None:
    subprocess.run(["true"], check=True)


def _makes_a_cgroup() -> None:
    Path("/sys/fs/cgroup/none/such").mkdir()


def _loads_torch() -> None:
    sys.modules.setdefault("torch", types.ModuleType("torch"))


@pytest.mark.parametrize(
    ("does", "missing", "mark"),
    [
        (_starts_a_process, "process", "process"),
        (_makes_a_cgroup, "own_cgroup", "own_cgroup"),
        (_loads_torch, "torch", "torch"),
    ],
)
def test_a_test_that_does_what_it_has_no_mark_for_fails(
    monkeypatch: pytest.MonkeyPatch, does: object, missing: str, mark: str
):
    """Even one that catches the refusal; the failure names the mark. With the mark it passes."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    guard = Guard()
    for marks, fails in ([], True), ([mark], False):
        guard.watch(_Test(*marks))  # type: ignore[arg-type]
        with contextlib.suppress(pytest.fail.Exception, FileNotFoundError):
            does()  # type: ignore[operator]
        found = None
        try:
            guard.check()
        except pytest.fail.Exception as failure:
            found = str(failure)
        guard.rest()
        # Not by monkeypatch, which would put the made-up module back.
        sys.modules.pop("torch", None)
        assert (found is not None) == fails
        assert found is None or f"`{missing}`" in found
