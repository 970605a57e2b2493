"""Where the crash tests' sweeps run, and what they must leave alone."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from edgebench.cgroups.parent import hierarchies

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
            if len(final) != self.planned or len(set(final)) != self.planned:
                wrong.append(f"trials: {final}")
            if not (sweep / "complete.json").exists():
                wrong.append(f"{sweep.name} is not complete")
            if (sweep / "live.json").exists():
                wrong.append(f"{sweep.name} shows a trial under way")
            for trial in final:
                if not (sweep / "samples" / f"{trial}.npz").exists():
                    wrong.append(f"trial {trial} has no samples")
        return wrong

    def left(self) -> list[str]:
        wrong = [f"left: {path}" for path in self._strange_files()]
        wrong += [f"left: {line}" for line in self._swaps() if "stranger" not in line]
        wrong += [f"left: {path}" for path in self._cgroups()]
        deadline = time.monotonic() + _PATIENCE_S
        while (children := self._children()) and time.monotonic() < deadline:
            time.sleep(0.01)
        return wrong + [f"process left: {words}" for words in children]

    def _strange_files(self) -> list[Path]:
        inside = [*self.temporary.iterdir(), *self.swap.iterdir(), *self.state.glob("*")]
        return [path for path in inside if "stranger" not in path.name]

    def _swaps(self) -> list[str]:
        lines = Path("/proc/swaps").read_text().splitlines()
        return [line for line in lines if str(self.folder) in line]

    def _cgroups(self) -> list[Path]:
        bases = [h.folder for h in hierarchies() if h.folder]
        names = [f"edgebench-{pid}-*" for pid in self.pids]
        return [path for base in bases for name in names for path in base.glob(name)]

    def _children(self) -> list[str]:
        words = []
        for pid in _child_pids():
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


def _child_pids() -> list[int]:
    tasks = Path("/proc/self/task").glob("*/children")
    return [int(pid) for task in tasks for pid in task.read_text().split()]
