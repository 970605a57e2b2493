"""Huge pages kept away from this process (prctl(2), PR_SET_THP_DISABLE)."""

from __future__ import annotations

import ctypes
from pathlib import Path

from edgebench.errors import WorkloadError
from edgebench.workloads.recorder import Recorder

_SET_THP_DISABLE = 41
_STATUS = Path("/proc/self/status")


def refuse_huge_pages(recorder: Recorder) -> None:
    """From here on, and in what it starts, all pages have the usual size; the kernel's word noted.

    Raises:
        WorkloadError: the kernel has no such switch.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_THP_DISABLE, 1, 0, 0, 0):
        raise WorkloadError("huge pages can't be refused here", remedy="leave huge_pages out")
    recorder.note(huge_pages=_are_given())


def _are_given() -> bool | None:
    """None of a kernel that doesn't say (before Linux 5.0)."""
    for line in _STATUS.read_text().splitlines():
        key, _, value = line.partition(":")
        if key == "THP_enabled":
            return value.strip() == "1"
    return None
