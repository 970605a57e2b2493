"""A command in a fresh cgroup with a limit, while a reader reads one of the cgroup's files."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from scipy.stats import beta

from edgebench.cgroups.interface import Limits
from edgebench.cgroups.join import join_command
from edgebench.cgroups.parent import ParentCgroup

HERE = Path(__file__).parent
MIB = 1 << 20
#: Reads a file at its start again and again; 0 ms: all the time.
READER = """
import os, sys, time
fd, pause = os.open(sys.argv[1], os.O_RDONLY), float(sys.argv[2]) / 1000
print(flush=True)
while os.getppid() == int(sys.argv[3]):
    try:
        os.pread(fd, 65536, 0)
    except OSError:
        pass
    if pause:
        time.sleep(pause)
"""


@dataclass(frozen=True)
class Look:
    """Which file is read meanwhile, and after how many milliseconds again."""

    file: str | None = None
    every_ms: float = 0.0

    def __str__(self) -> str:
        how = f"every {self.every_ms:g} ms" if self.every_ms else "all the time"
        return f"{self.file} {how}" if self.file else "nothing"


@dataclass
class Bench:
    """What every try is made with."""

    parent: ParentCgroup
    folder: Path
    tries: int
    only: tuple[str, ...] = ()
    #: Programs at once, each in its own group.
    at_once: int = 2
    #: The limit of the section ``seldom``, and its rounds.
    some_mib: float = 87
    some_rounds: int = 8
    rng: random.Random = field(default_factory=lambda: random.Random(14))

    @cached_property
    def all_active(self) -> str:
        """The smallest program, compiled."""
        return self._compiled("all_active")

    @cached_property
    def rounds(self) -> str:
        """The program like a network, compiled."""
        return self._compiled("rounds")

    def _compiled(self, name: str) -> str:
        program = self.folder / name
        subprocess.run(["cc", "-O1", "-o", program, HERE / f"{name}.c"], check=True)
        return str(program)


@dataclass(frozen=True)
class Ended:
    """How one try ended: by the kernel's kill, after how many whole rounds and seconds."""

    killed: bool
    rounds: int
    seconds: list[float]


def attempt(bench: Bench, mib: float, command: list[str], look: Look) -> Ended:
    """Run a command in a fresh group of that limit, with more swap than it needs."""
    name = f"{os.getpid()}-observer-{bench.rng.getrandbits(40):x}"
    cgroup = bench.parent.create(name)
    try:
        cgroup.set_limits(Limits(memory_bytes=int(mib * MIB)))
        with reading(cgroup.path / look.file if look.file else None, look.every_ms):
            done = subprocess.run(
                join_command(cgroup, command, None, None),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                timeout=300,
                check=False,
            )
        if done.returncode not in (0, -9):
            raise SystemExit(f"{command} ended with {done.returncode}")
        lines = [line.split() for line in done.stdout.splitlines()]
        return Ended(bool(cgroup.read().oom_kills), len(lines), [float(row[2]) for row in lines])
    finally:
        cgroup.remove()


@contextlib.contextmanager
def reading(path: Path | None, every_ms: float) -> Iterator[int | None]:
    """A process of its own that reads the file meanwhile; its pid."""
    if path is None:
        yield None
        return
    words = [sys.executable, "-I", "-S", "-c", READER, str(path), str(every_ms), str(os.getpid())]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout
    try:
        process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def told(says: str, ended: list[Ended]) -> dict[str, Any]:
    """One row: how many were killed, and the 90 % interval of that share (Jeffreys)."""
    killed, tries = sum(one.killed for one in ended), len(ended)
    low, high = beta.ppf([0.05, 0.95], killed + 0.5, tries - killed + 0.5)
    rounds = sum(one.rounds for one in ended)
    row = {"what": says, "killed": killed, "tries": tries, "low": low, "high": high}
    if rounds:
        row |= {"rounds": rounds, "seconds": [s for one in ended for s in one.seconds]}
    print(f"  {says}: {killed} of {tries} killed", flush=True)
    return row


Arm = tuple[str, Callable[[], Ended]]


def in_turns(bench: Bench, arms: list[Arm], tries: int, at_once: int = 1) -> list[dict[str, Any]]:
    """Each arm so many times, in random order; some at once, each in its own group."""
    order = [index for index in range(len(arms)) for _ in range(tries)]
    bench.rng.shuffle(order)
    with ThreadPoolExecutor(at_once) as pool:
        ended = list(pool.map(lambda index: arms[index][1](), order))
    split: list[list[Ended]] = [[] for _ in arms]
    for index, one in zip(order, ended, strict=True):
        split[index].append(one)
    return [told(says, ones) for (says, _), ones in zip(arms, split, strict=True)]
