"""Why a program ended that no limit ended, and what to type: by its signal, by what it printed."""

from __future__ import annotations

import re
import signal as signals

#: Each signal: what it says of the cause, and how to find that.
_SIGNALS: dict[int, tuple[str, str]] = {
    signals.SIGKILL: (
        "it was not the limit of memory, as the kernel counted no such kill in its cgroup: another "
        "program killed it (earlyoom, systemd-oomd, a supervisor), or it did so itself",
        "see who: journalctl -b | grep -iE 'killed|oom' | tail",
    ),
    signals.SIGSEGV: (
        "it read or wrote memory that it does not have: a bug, a library of another version, or a "
        "stack that is too small",
        "see where: python3 -X faulthandler PROGRAM, or gdb; larger stack: ulimit -s unlimited",
    ),
    signals.SIGILL: (
        "it used an instruction that this processor lacks: it was built for another one",
        "compare with: grep -m1 flags /proc/cpuinfo; install or build it for this processor",
    ),
    signals.SIGBUS: (
        "a file that it maps ended too early, or the tmpfs below its shared memory is full",
        "see whether its file is whole, and how full that is: df -h /dev/shm; larger: mount -o "
        "remount,size=2G /dev/shm",
    ),
    signals.SIGABRT: (
        "it gave up by itself: a failed assertion, or an exception that nothing caught",
        "its last lines say which; std::bad_alloc is memory that it was refused: ulimit -v",
    ),
    signals.SIGFPE: (
        "it divided an integer by zero",
        "see where: python3 -X faulthandler PROGRAM, or gdb",
    ),
    signals.SIGTERM: (
        "another program asked it to end: a supervisor, timeout, or a script of its own",
        "see who: journalctl -b | tail",
    ),
    signals.SIGXCPU: (
        "it used more CPU time than ulimit allows",
        "see: ulimit -t",
    ),
    signals.SIGXFSZ: (
        "it wrote a larger file than ulimit allows",
        "see: ulimit -f",
    ),
}
#: What a program printed, and what then helps. ``{0}`` is what the group found.
_PRINTED: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"unsupported locale|cannot change locale|setlocale: .*LC_", re.IGNORECASE),
        "this machine lacks its locale: run it with LC_ALL=C.UTF-8 before its name, after env; if "
        "its code names one, make that: localedef -i de_DE -f UTF-8 de_DE.UTF-8",
    ),
    (
        re.compile(r"^MemoryError|std::bad_alloc|Cannot allocate memory|ENOMEM", re.MULTILINE),
        "it was refused memory, though edgebench set no limit: see ulimit -v, and whether one of "
        "its sizes is far too large",
    ),
    (
        re.compile(r"UnicodeEncodeError|UnicodeDecodeError: 'ascii'"),
        "its output or input is not ASCII: run it with env PYTHONUTF8=1 LC_ALL=C.UTF-8",
    ),
    (
        re.compile(
            r"Could not find an implementation for (?:the node )?(?:\S*?:)?([\w.]+)|"
            r"(?:find|found) op for builtin opcode '?(\w+)|"
            r"No Op registered for (\w+)|"
            r"operator (\S+::\S+) does not exist|"
            r"Could not run '([\w:.]+)' (?:with arguments )?from the"
        ),
        "this version of its engine lacks the operator {0}: install a newer one, or export the "
        "model with an older opset",
    ),
    (
        re.compile(r"(Regular TensorFlow ops|Flex\w* ?(?:op|delegate))", re.IGNORECASE),
        "the model has operators that LiteRT lacks: convert it without SELECT_TF_OPS",
    ),
    (
        re.compile(r"(?:ModuleNotFoundError|ImportError): No module named '?([\w]+)"),
        "the Python that runs it lacks {0}: install it, or name the python of its environment",
    ),
    (
        re.compile(r"error while loading shared libraries: (\S+?):"),
        "the library {0} is missing: install its package, or set LD_LIBRARY_PATH",
    ),
    (
        re.compile(r"version `(GLIBC\w*_[\d.]+)' not found"),
        "it was built for a newer system ({0}): build it here, or run it in a container",
    ),
    (
        re.compile(r"No space left on device"),
        "a disk is full: see df -h . /tmp /dev/shm",
    ),
    (
        re.compile(r"Address already in use"),
        "another program has its port, or an earlier run of it lives: ss -ltnp",
    ),
)


def cause_of_signal(signal: int | None) -> str | None:
    """What a signal says of the cause, where no limit of memory is it; None: nothing known."""
    found = _SIGNALS.get(signal or 0)
    return found[0] if found else None


def remedy_for_end(signal: int | None, output: str) -> str | None:
    """What to type after such an end, by what the program printed or by the signal that ended it.

    None: neither tells.
    """
    for pattern, words in _PRINTED:
        if found := pattern.search(output):
            named = next((group for group in found.groups() if group), "")
            return words.format(named)
    known = _SIGNALS.get(signal or 0)
    return known[1] if known else None
