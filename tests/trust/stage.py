"""A small sweep that meets one fault at one of its steps, over and over. A program for the tests.

A step is any moment at which the harness changes something outside itself. Python's audit events
(PEP 578) tell of files opened for writing, folders, renames, removals, locks, and processes; the
few calls that have no such event are wrapped. The program itself stays as it is.

``python -m tests.trust.stage ARENA FAULT FIRST EVERY`` prints what it found as JSON.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from edgebench import cli
from edgebench.cgroups import leftovers
from edgebench.cgroups.parent import hierarchies
from edgebench.cgroups.swap import SwapControl
from edgebench.run.trial import session as session
from edgebench.run.trial.process import WorkloadProcess

#: Imported here, so that no step is an import.
for _module in (
    *("cli.run", "cli.show", "cli.progress"),
    *("run.sweep", "scenario.scenario", "results.results", "results.facts"),
):
    __import__(f"edgebench.{_module}")

FULL = "full-disk"
#: The next start, which clears up and goes on, is killed too.
TWICE = "kill-twice"
#: Fault → its signal, and how a start may end at it; or through, because it came too late.
SIGNALS = {
    "kill": (signal.SIGKILL, {-signal.SIGKILL}),
    "term": (signal.SIGTERM, {143}),
    "interrupt": (signal.SIGINT, {130}),
    "hang-up": (signal.SIGHUP, {129}),
    TWICE: (signal.SIGKILL, {-signal.SIGKILL}),
    FULL: (0, {1, 3}),
}
#: Where the second kill strikes: among the first steps, at which the first one is cleared up after.
_EARLY_STEPS = 120
_CHANGES = {
    *("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.chown", "os.kill"),
    *("subprocess.Popen", "shutil.rmtree", "fcntl.flock"),
}
_CALLS = ("write", "fsync", "ftruncate", "posix_fallocate")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_KERNELS = ("/proc/", "/sys/", "/dev/", "pipe:", "socket:")
#: Events at which a disk can be full.
_FILLS = {"open", "os.mkdir", "os.rename", *(f"os.{name}" for name in _CALLS)}


_SCENARIO = """
schema = 1
name = "crash"
repeats = 1
timeout = "20s"
[workload]
kind = "command"
command = ["/bin/true"]
[limits]
memory = ["64M"]
swap = """
_NO_SWAP, _SWAP = '"none"', '{ kind = ["none", "file"], size = "4M" }'
_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE_S = 200.0


class Arena:
    """A folder with all that a sweep writes, strangers of the same names among it.

    Where no file in it can be swap (in a virtual machine's memory), its sweeps do without.
    Orphans of a killed harness become children of this process, so none can hide.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary, self.swap = folder / "tmp", folder / "swap"
        self.state = folder / "state"
        self.log, self.said = folder / "steps", folder / "said"
        self.pids: set[int] = set()
        self.was_struck = False
        self.planned = 0
        for path in (self.temporary, self.swap):
            path.mkdir(parents=True)
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def state_folder(self) -> Path:
        self.state.mkdir(mode=0o700, exist_ok=True)
        return self.state

    def clear(self) -> None:
        shutil.rmtree(self.folder / "results", ignore_errors=True)
        self.pids.clear()

    def results(self) -> list[Path]:
        return [path for path in self.folder.glob("results/*/*") if not path.name.startswith(".")]

    def trials(self) -> set[tuple[str, str]]:
        found = set()
        for file in self.folder.glob("results/*/*/trials.jsonl"):
            for line in file.read_bytes().split(b"\n"):
                with contextlib.suppress(ValueError):
                    found.add((file.parent.name, json.loads(line)["trial"]))
        return found

    def words(self) -> str:
        return self.said.read_text(errors="replace")

    def steps(self) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if line != "struck"]

    def struck_step(self) -> str:
        lines = self.log.read_text().splitlines()
        self.was_struck = "struck" in lines
        if not self.was_struck:
            return "never reached"
        return lines[lines.index("struck") - 1].replace(str(self.folder), "")

    def incomplete(self) -> list[str]:
        wrong = [f"half-made: {path}" for path in self.folder.glob("results/**/.*.part*")]
        sweeps = self.results()
        wrong += [] if sweeps else ["no results"]
        for sweep in sweeps:
            lines = [json.loads(line) for line in (sweep / "trials.jsonl").read_text().splitlines()]
            final = [line["trial"] for line in lines if line["outcome"] != "harness-error"]
            samples = {path.stem for path in (sweep / "samples").glob("*.npz")}
            if (
                len(final) != self.planned
                or len(set(final)) != self.planned
                or set(final) - samples
            ):
                wrong.append(f"trials: {final}, samples: {samples}")
            if not (sweep / "complete.json").exists() or (sweep / "live.json").exists():
                wrong.append(f"{sweep.name} is not complete, or shows a trial under way")
        return wrong

    def left(self) -> list[str]:
        files = [*self.temporary.iterdir(), *self.swap.iterdir(), *self.state.glob("*")]
        found = [str(path) for path in files] + self._swaps()
        wrong = [f"left: {words}" for words in found if "stranger" not in words]
        wrong += [f"left: {path}" for path in self._cgroups()]
        deadline = time.monotonic() + _PATIENCE_S
        while (children := self._children()) and time.monotonic() < deadline:
            time.sleep(0.01)
        return wrong + [f"process left: {words}" for words in children]

    def _swaps(self) -> list[str]:
        lines = Path("/proc/swaps").read_text().splitlines()
        return [line for line in lines if str(self.folder) in line]

    def _cgroups(self) -> list[Path]:
        bases = [h.folder for h in hierarchies() if h.folder]
        names = [f"edgebench-{pid}-*" for pid in self.pids]
        return [path for base in bases for name in names for path in base.glob(name)]

    def _children(self) -> list[str]:
        words = []
        tasks = Path("/proc/self/task").glob("*/children")
        for pid in (int(pid) for task in tasks for pid in task.read_text().split()):
            if pid == self._stranger.pid:
                continue
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    words.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "))
        return words

    @contextlib.contextmanager
    def with_strangers(self) -> Iterator[None]:
        """Things of somebody else, named as ours are: a cgroup with a process, swap, a folder."""
        memory = next(h.folder for h in hierarchies() if "memory" in h.controllers and h.folder)
        self._cgroup = memory / f"edgebench-{os.getpid()}-stranger"
        self._folder = self.temporary / "edgebench-stranger"
        self._swap_file = self.swap / "edgebench-swap-stranger" / "edgebench-swap"
        self._cgroup.mkdir()
        for folder in (self._folder, self._swap_file.parent):
            folder.mkdir(mode=0o700)
        (self._folder / "precious").write_text("precious")
        self._stranger = subprocess.Popen(["sleep", "100000"])
        try:
            (self._cgroup / "cgroup.procs").write_text(str(self._stranger.pid))
            swaps = self._make_swap()
            self.planned = 4 if swaps else 2
            text = _SCENARIO + (_SWAP if swaps else _NO_SWAP)
            (self.folder / "scenario.toml").write_text(text)
            yield
        finally:
            subprocess.run(["swapoff", str(self._swap_file)], check=False, capture_output=True)
            self._stranger.kill()
            self._stranger.wait()
            self._cgroup.rmdir()

    def _make_swap(self) -> bool:
        fd = os.open(self._swap_file, os.O_CREAT | os.O_WRONLY, 0o600)
        os.posix_fallocate(fd, 0, 1 << 20)
        os.close(fd)
        subprocess.run(["mkswap", str(self._swap_file)], check=True, capture_output=True)
        done = subprocess.run(["swapon", str(self._swap_file)], check=False, capture_output=True)
        return done.returncode == 0

    def touched(self) -> list[str]:
        there = {
            "process": self._stranger.poll() is None,
            "cgroup": str(self._stranger.pid) in (self._cgroup / "cgroup.procs").read_text(),
            "swap": self.planned == 2 or any("stranger" in line for line in self._swaps()),
            "folder": (self._folder / "precious").exists(),
        }
        return [f"a stranger's {what} was touched" for what, well in there.items() if not well]


class Steps:
    def __init__(self, fault: str, strike_at: int | None, log: Path) -> None:
        self._fault = fault
        self._strike_at = strike_at
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._numbers = itertools.count()
        self._busy = False

    def watch(self) -> None:
        for name in _CALLS:
            setattr(os, name, self._wrapped(f"os.{name}", getattr(os, name)))
        subprocess.Popen.wait = self._wrapped("wait", subprocess.Popen.wait)  # type: ignore[method-assign]
        WorkloadProcess._wait = self._wrapped("trial", WorkloadProcess._wait)  # type: ignore[method-assign]
        sys.addaudithook(self._hook)

    def _wrapped(self, event: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            self._hook(event, args)
            return function(*args, **named)

        return call

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if self._busy or not self._counts(event, args):
            return
        self._busy = True
        try:
            number = next(self._numbers)
            _raw_write(self._log, f"{event} {_about(event, args)}\n".encode())
            if number == self._strike_at:
                _raw_write(self._log, b"struck\n")
                self._strike(event)
        finally:
            self._busy = False

    def _counts(self, event: str, args: tuple[Any, ...]) -> bool:
        if event == "open" and not (isinstance(args[2], int) and args[2] & _WRITING):
            return False
        if self._fault == FULL:
            return event in _FILLS and not _about(event, args).startswith(_KERNELS)
        return event in _CHANGES or event in ("open", "wait", "trial") or event[3:] in _CALLS

    def _strike(self, event: str) -> None:
        if self._fault == FULL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), event)
        os.kill(os.getpid(), SIGNALS[self._fault][0])


_raw_write = os.write


def _about(event: str, args: tuple[Any, ...]) -> str:
    about = args[0] if args else ""
    if event[3:] in _CALLS and isinstance(about, int):
        return str(Path(f"/proc/self/fd/{about}").readlink()) if about > 2 else "/dev/std"
    return str(os.fspath(about)) if isinstance(about, (str, Path)) else ""


def start(arena: Arena, *words: str, fault: str = "", strike_at: int | None = None) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        arena.pids.add(pid)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        os.chdir(arena.folder)
        said = os.open(arena.said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for fd in (1, 2):
            os.dup2(said, fd)
        tempfile.tempdir = str(arena.temporary)
        leftovers.state_folder = arena.state_folder
        session.SwapControl = functools.partial(SwapControl, folder=arena.swap)  # type: ignore[assignment,misc]
        sys.argv = ["edgebench", *words]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        if fault:
            Steps(fault, strike_at, arena.log).watch()
        cli.main()
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    os._exit(70)


RUN = ("run", "scenario.toml", "--device", "stage")


def one(arena: Arena, fault: str, number: int) -> list[str]:
    arena.clear()
    code = start(arena, *RUN, fault=fault, strike_at=number)
    step = arena.struck_step()
    wrong = [] if code in {0, *SIGNALS[fault][1]} else [f"ended with {code}: {arena.words()}"]
    if "Traceback" in arena.words():
        wrong.append(f"a traceback: {arena.words()[-900:]}")
    wrong += readable(arena)
    if fault == TWICE:
        start(arena, *RUN, fault="kill", strike_at=7 * number % _EARLY_STEPS)
        wrong += readable(arena)
    before = arena.trials()
    again = start(arena, *RUN)
    if again != 0:
        wrong.append(f"the next start ended with {again}: {arena.words()}")
    wrong += arena.incomplete() + arena.left() + arena.touched()
    if lost := before - arena.trials():
        wrong.append(f"lost {sorted(lost)}")
    return [f"{fault} at {number} ({step}): {what}" for what in wrong]


def readable(arena: Arena) -> list[str]:
    if not arena.results():
        return []
    code = start(arena, "show", "results", "--json")
    return [] if code == 0 else [f"show ended with {code}: {arena.words()}"]


def count_steps(arena: Arena, fault: str) -> list[str]:
    arena.clear()
    code = start(arena, *RUN, fault=fault)
    if code:
        raise RuntimeError(arena.words())
    return arena.steps()


def main(words: list[str]) -> None:
    folder, fault, first, every = words
    # The strangers go even then.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    arena = Arena(Path(folder))
    with arena.with_strangers():
        steps = count_steps(arena, fault)
        numbers = range(int(first), len(steps), int(every))
        wrong, struck = [], 0
        for number in numbers:
            wrong += one(arena, fault, number)
            struck += arena.was_struck
    found = {"tried": len(numbers), "struck": struck, "wrong": wrong}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
