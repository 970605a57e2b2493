"""Several harnesses at once: what they share stays until the last of them has ended.

Those of real cgroups are for version 2: ``scripts/test --v2 tests/cgroups/test_side_by_side.py``.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from edgebench.cgroups import leftovers
from edgebench.cgroups.interface import Cgroup
from edgebench.cgroups.join import join_command
from edgebench.cgroups.leftovers import LEAF, Ownership, clear_leftovers

REPOSITORY = Path(__file__).resolve().parents[2]
#: A harness that makes a small trial for each line that it gets, and ends with its input.
_HARNESS = """
import json, os, subprocess, sys
sys.path[:0] = json.loads(sys.argv[1])
from pathlib import Path
from edgebench.cgroups.interface import Limits
from edgebench.cgroups.join import join_command
from edgebench.cgroups.leftovers import Ownership, clear_leftovers
from edgebench.cgroups.parent import find_parent
state = Path(sys.argv[2])
clear_leftovers(state)
with Ownership(state) as ownership:
    parent = find_parent(ownership)
    print("ready", flush=True)
    for number, line in enumerate(sys.stdin):
        made = parent.create(f"{os.getpid()}-{number}")
        try:
            made.set_limits(Limits(memory_bytes=32 << 20))
            done = subprocess.run(join_command(made, ["cat", "/proc/self/cgroup"], None, None),
                                  capture_output=True, text=True)
            inside = made.path.name in done.stdout and made.read().peak_bytes > 0
        finally:
            made.remove()
        print("ok" if inside else "lost", flush=True)
"""


class Harness:
    def __init__(self, cgroup: Cgroup, state: Path) -> None:
        words = [json.dumps([str(REPOSITORY), *sys.path]), str(state)]
        program = [sys.executable, "-I", "-S", "-c", _HARNESS, *words]
        self._process = subprocess.Popen(
            join_command(cgroup, program, None, None),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def answer(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def trial(self) -> str:
        """Make a trial: ``ok`` if it ran in a limited cgroup."""
        assert self._process.stdin
        self._process.stdin.write("trial\n")
        self._process.stdin.flush()
        return self.answer()

    def end(self, how: str = "end") -> None:
        if how != "end":
            self._process.send_signal(signal.Signals[how])
        self._process.communicate()


@pytest.fixture
def scope(cgroup: Cgroup) -> Iterator[Cgroup]:
    if cgroup.version != 2:
        pytest.skip("this kernel's memory controller is on version 1")
    yield cgroup
    assert not [inner for inner in cgroup.path.iterdir() if inner.is_dir()]
    assert not passed_down(cgroup)


def passed_down(cgroup: Cgroup) -> str:
    return (cgroup.path / "cgroup.subtree_control").read_text().strip()


@pytest.mark.own_cgroup
@pytest.mark.promise("Several harnesses at once disturb each other's trials in no order of ending.")
@pytest.mark.parametrize("order", list(itertools.permutations(range(2))))
@pytest.mark.parametrize("how", ["end", "SIGKILL"])
def test_two_harnesses_end_in_any_order(
    scope: Cgroup, state: Path, order: tuple[int, ...], how: str
) -> None:
    """The first one ends or is killed: the other's next trial runs, and the last one tidies up."""
    harnesses = [Harness(scope, state) for _ in order]
    assert [one.answer() for one in harnesses] == ["ready", "ready"]
    assert [one.trial() for one in harnesses] == ["ok", "ok"]
    first, last = (harnesses[number] for number in order)
    first.end(how)
    assert last.trial() == "ok"
    last.end()
    if how == "SIGKILL":
        assert passed_down(scope)
        assert f"in {scope.path}" in " ".join(clear_leftovers(state))


@pytest.mark.own_cgroup
def test_the_last_one_is_killed_and_the_next_start_tidies_up(scope: Cgroup, state: Path) -> None:
    harness = Harness(scope, state)
    assert harness.answer() == "ready"
    stays = subprocess.Popen(["sleep", "1000"])
    (scope.path / LEAF / "cgroup.procs").write_text(str(stays.pid))
    harness.end("SIGKILL")
    assert clear_leftovers(state)
    assert str(stays.pid) in (scope.path / "cgroup.procs").read_text().split()
    assert not (scope.path / LEAF).exists()
    stays.kill()
    stays.wait()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def restore(target: Path, before: str) -> str | None:
        target.write_text(before)
        return f"restored {target.name}"

    monkeypatch.setattr(leftovers, "restore_controllers", restore)
    path = tmp_path / "value"
    path.write_text("3")
    return path


def change(ownership: Ownership, file: Path) -> None:
    with ownership.share(file, file.read_text):
        file.write_text("0")


def die(ownership: Ownership) -> None:
    os.close(ownership._fd)
    ownership._fd = -1


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("killed", [(), (0,), (0, 1), (0, 1, 2)])
def test_the_last_of_three_restores(
    state: Path, file: Path, order: tuple[int, ...], killed: tuple[int, ...]
) -> None:
    with ExitStack() as stack:
        harnesses = [stack.enter_context(Ownership(state)) for _ in order]
        for harness in harnesses:
            change(harness, file)
        living = list(order)
        for number in order:
            (die if number in killed else Ownership.close)(harnesses[number])
            living.remove(number)
            sentences = clear_leftovers(state)
            assert file.read_text() == ("0" if living else "3")
        assert sentences == (["restored value"] if number in killed else [])
    assert not list(state.iterdir())


def test_one_that_gives_up_early_leaves_it_to_the_other(state: Path, file: Path) -> None:
    with Ownership(state) as one, Ownership(state) as other:
        change(one, file)
        change(other, file)
        one.restore(file)
        assert file.read_text() == "0"
        other.restore(file)
        assert file.read_text() == "3"
