"""What is said where a program ends by itself, and what to type then."""

from __future__ import annotations

import signal

import pytest

from edgebench.words.ends import cause_of_signal, remedy_for_end


@pytest.mark.parametrize(
    ("number", "cause", "remedy"),
    [
        (signal.SIGKILL, "not the limit of memory", "journalctl"),
        (signal.SIGSEGV, "a bug, a library", "faulthandler"),
        (signal.SIGILL, "an instruction that this processor lacks", "/proc/cpuinfo"),
        (signal.SIGBUS, "shared memory is full", "df -h /dev/shm"),
        (signal.SIGABRT, "a failed assertion", "std::bad_alloc"),
    ],
)
def test_each_signal_has_its_cause_and_remedy(number: int, cause: str, remedy: str):
    """None of them is a lack of input, and none the limit of memory."""
    assert cause in cause_of_signal(number)
    assert remedy in remedy_for_end(number, "")


@pytest.mark.parametrize(
    ("output", "remedy"),
    [
        ("locale.Error: unsupported locale setting", "LC_ALL=C.UTF-8"),
        ("locale.Error: unsupported locale setting", "localedef -i de_DE"),
        ("    raise\nMemoryError", "ulimit -v"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "ulimit -v"),
        ("bash: warning: setlocale: LC_ALL: cannot change locale (de_DE)", "LC_ALL=C.UTF-8"),
        (
            "NOT_IMPLEMENTED : Could not find an implementation for GridSample(20) node",
            "lacks the operator GridSample:",
        ),
        ("ValueError: Didn't find op for builtin opcode 'CONV_2D' version '6'", "CONV_2D:"),
        ("RuntimeError: operator torchvision::nms does not exist", "operator torchvision::nms:"),
        ("ModuleNotFoundError: No module named 'cv2'", "lacks cv2:"),
        ("./a: error while loading shared libraries: libgomp.so.1: cannot open", "libgomp.so.1 is"),
        ("/lib/libc.so.6: version `GLIBC_2.38' not found (required by ./a)", "(GLIBC_2.38)"),
    ],
)
def test_what_a_program_printed_tells_more_than_its_signal(output: str, remedy: str):
    """The words of locales, loaders and engines, with the name of what is missing."""
    assert remedy in remedy_for_end(None, output)
    assert remedy in remedy_for_end(signal.SIGABRT, output)


def test_an_unknown_end_has_no_such_remedy():
    """Then the usual one is given."""
    assert remedy_for_end(None, "Traceback: KeyError") is None
    assert cause_of_signal(None) is None
