"""Ends each verb by each signal at random instants, and counts what is left after the next start.

``python -m tests.trust.kills [ROUNDS [SEED]]``, as root: a round is one kill of each verb by each
signal. So five rounds are 30 instants of each signal.
All of it lies in a mount namespace with a ``/run`` and a ``/var/tmp`` of its own, the latter in a
folder below ``build``, and in cgroups of its own.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgebench.cgroups.parent import hierarchies
from tests.own_path import python_path

SIGNALS = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
_ROOT = Path(__file__).resolve().parents[2]
_STATE = Path("/run/edgebench")
_CLONE_NEWNS = 0x20000
_PATIENCE_S, _LONGEST_S = 30.0, 300.0
#: It marks all processes that come of a start.
_MARK = "EDGEBENCH_KILLS"
_FILL = "b = bytearray(24 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1"
_PROGRAM = ["python3", "-I", "-S", "-c", _FILL]
_SCENARIO = f"""
schema = 1
name = "kills"
repeats = 1
timeout = "60s"
[workload]
kind = "command"
command = {json.dumps(_PROGRAM)}
[limits]
memory = ["64M", "16M"]
swap = {{ kind = ["none", "file"], size = "64M" }}
"""
_INVENTORY = f"""
schema = 1
[hosts.one]
ssh = "one"
python = {json.dumps(sys.executable)}
"""
#: In place of SSH's client.
_SSH = '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nexec sh -c "$3"\n'
#: Verb → its words, and within how many seconds of its start it is ended.
_VERBS = {
    "run": (["run", "scenario.toml"], 6.0),
    "minimum": (["minimum", "--swap", "64M", "--fresh", "--", *_PROGRAM], 8.0),
    "advise": (["advise", "--memory", "16M", "--swap", "64M", "--fresh", "--", *_PROGRAM], 12.0),
    "calibrate": (["calibrate", "--swap", "512M", "--device", "kills"], 12.0),
    "serve": (["serve", ".", "--port", "0"], 6.0),
    "fleet": (["fleet", "scenario.toml"], 12.0),
}


class Arena:
    """Where the verbs run, and what they leave there."""

    def __init__(self, folder: Path) -> None:
        self.work, self.log = folder / "work", folder / "log"
        self._disk, temporary = folder / "var-tmp", folder / "tmp"
        for path in (self.work, self._disk, temporary):
            path.mkdir(mode=0o700)
        self._places = [_STATE, self._disk, temporary]
        own = {_MARK: folder.name, "TMPDIR": str(temporary)}
        own["EDGEBENCH_CACHE"] = str(folder / "cache")
        own["XDG_STATE_HOME"] = str(folder / "state")
        # It is torch's, and is there for the next start.
        own["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "cache" / "torch")
        ssh = folder / "bin" / "ssh"
        ssh.parent.mkdir()
        ssh.write_text(_SSH)
        ssh.chmod(0o755)
        own["PATH"] = f"{ssh.parent}:{os.environ['PATH']}"
        self.environment = {**os.environ, "PYTHONPATH": python_path(), **own}
        self._cgroups: list[Path] = []

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Within the block, its places are mounted and cgroups of its own are entered."""
        if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNS):
            raise OSError(ctypes.get_errno(), "unshare")
        _run("mount", "--make-rprivate", "/")
        # The host's own folder of state files may be removed by a harness there.
        _run("mount", "-t", "tmpfs", "tmpfs", str(_STATE.parent))
        _run("mount", "--bind", str(self._disk), "/var/tmp")
        above = {found.folder for found in hierarchies() if found.folder and not found.read_only}
        self._cgroups = [folder / f"kills-{os.getpid()}" for folder in above]
        for cgroup in self._cgroups:
            cgroup.mkdir()
            for name in ("cpuset.cpus", "cpuset.mems"):
                # On version 1 no process can join without.
                if (cgroup / name).exists() and not (cgroup / name).read_text().strip():
                    (cgroup / name).write_text((cgroup.parent / name).read_text())
            (cgroup / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield
        finally:
            for cgroup in self._cgroups:
                (cgroup.parent / "cgroup.procs").write_text(str(os.getpid()))
                cgroup.rmdir()

    def start(self, words: list[str]) -> subprocess.Popen[bytes]:
        """Start the program; what it prints goes to the log."""
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "edgebench", *words],
                cwd=self.work,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def finish(self, words: list[str]) -> list[str]:
        """A start that has to go through; what is wrong with it."""
        code = self.start(words).wait(_LONGEST_S)
        return [f"{words[0]} ended with {code}: {self.printed()}"] if code else []

    def has_begun(self) -> bool:
        """Whether the last start had come to the program's own first line."""
        return "edgebench/cli/" in self.log.read_text(errors="replace")

    def printed(self) -> str:
        """The end of what the last start printed."""
        return self.log.read_text(errors="replace")[-600:]

    def left(self) -> list[str]:
        """What is there that should not be."""
        wrong = [f"a file: {path}" for place in self._places for path in place.glob("*")]
        wrong += [f"a cgroup: {one}" for top in self._cgroups for one in top.glob("**/edgebench-*")]
        deadline = time.monotonic() + _PATIENCE_S
        while (lines := list(self._processes())) and time.monotonic() < deadline:
            time.sleep(0.1)
        return wrong + [f"a process: {line}" for line in lines]

    def _processes(self) -> Iterator[str]:
        mark = f"{_MARK}={self.environment[_MARK]}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    yield (folder / "cmdline").read_text().replace("\0", " ")


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def kill_once(arena: Arena, verb: str, number: signal.Signals, chance: random.Random) -> list[str]:
    """End a verb by a signal at an instant; what is wrong with how it ended."""
    words, longest_s = _VERBS[verb]
    process = arena.start(words)
    # The instants are the test: none of them may be special.
    with suppress(subprocess.TimeoutExpired):
        process.wait(chance.uniform(0, longest_s))
    process.send_signal(number)
    try:
        code = process.wait(_LONGEST_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return [f"{number.name}: it went on for {_LONGEST_S:g} s"]
    is_traceback = "Traceback" in arena.log.read_text(errors="replace")
    if is_traceback and not arena.has_begun():
        # Python was still starting, and printed it.
        return []
    if is_traceback or code not in (0, 3, 128 + number, -number):
        return [f"{number.name}: it ended with {code}: {arena.printed()}"]
    return []


def each_signal(arena: Arena, verb: str, chance: random.Random) -> Iterator[str]:
    """One kill by each signal; what is wrong or left after the next start."""
    next_start = ["measure", "--memory", "64M", "--", "true"]
    (arena.work / "scenario.toml").write_text(_SCENARIO)
    if verb == "fleet":
        (arena.work / "fleet.toml").write_text(_INVENTORY)
    for number in SIGNALS:
        yield from kill_once(arena, verb, number, chance)
        yield from arena.finish(next_start)
        yield from (f"{number.name}: {what}" for what in arena.left())


def main(words: list[str]) -> None:
    """Kill all verbs by all signals, and print what is wrong after each round, and at the end."""
    rounds, seed = (*map(int, words), *(5, 1)[len(words) :])
    folder = _ROOT / "build" / f"kills-{os.getpid()}"
    folder.mkdir(parents=True)
    arena, chance = Arena(folder), random.Random(seed)
    wrong = []
    with arena.entered():
        for number in range(1, rounds + 1):
            for verb in _VERBS:
                found = [f"{verb}, {what}" for what in each_signal(arena, verb, chance)]
                sys.stderr.write(f"{number}, {verb}: {found}\n")
                wrong += found
    shutil.rmtree(folder)
    kills = {one.name: rounds * len(_VERBS) for one in SIGNALS}
    sys.stdout.write(json.dumps({"kills": kills, "wrong": wrong}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
