"""What was simulated is kept on disk: never wrong, never in the way."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Thread

import numpy as np
import pytest
from made_networks import MIB, calibration, table, workload

from edgebench import cache
from edgebench.cache import KeptAnswers
from edgebench.slowdown.simulated_counts import kept_counts
from edgebench.slowdown.simulator import profile, simulation
from edgebench.slowdown.simulator.movement_costs import FREE
from edgebench.slowdown.simulator.simulation import device_of

WORK = workload(table(8, 16), rounds=2)
DEVICE = replace(device_of(calibration()), costs=FREE)
LIMITS = tuple(float(size * MIB) for size in range(40, 240, 20))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of this test's own."""
    monkeypatch.setenv("EDGEBENCH_CACHE", str(tmp_path))
    return tmp_path / "answers"


@pytest.fixture
def simulations(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The workloads that were really simulated."""
    made: list[object] = []
    real = simulation.missed

    def missed(*about: object) -> object:
        made.append(about)
        return real(*about)  # type: ignore[arg-type]

    monkeypatch.setattr(simulation, "missed", missed)
    return made


def as_in_a_new_process() -> None:
    """Forget what this process remembers."""
    for kept in (profile._profile, profile._simulation, simulation._missed):
        kept.cache_clear()


def files(folder: Path) -> list[Path]:
    """The kept answers."""
    return [path for path in folder.rglob("*") if path.is_file()]


def found(phase: str = "total", work: object = WORK) -> profile.Profile:
    """The profile, as a new process finds it."""
    as_in_a_new_process()
    return profile._profile(work, DEVICE, phase, "", LIMITS)  # type: ignore[arg-type]


def same(one: profile.Profile, other: profile.Profile) -> bool:
    """Whether all numbers are equal."""
    return all(np.array_equal(getattr(one, n), getattr(other, n)) for n in vars(one))


def test_a_second_call_simulates_nothing(simulations: list[object]):
    """Its numbers are those of the first, bit by bit."""
    first = found()
    assert len(simulations) == 1
    assert first.moved.max() > 0
    assert same(first, found())
    assert len(simulations) == 1


def test_what_changes_an_answer_is_another_question(
    simulations: list[object], monkeypatch: pytest.MonkeyPatch
):
    """Another workload, another device, other code."""
    found()
    found(work=replace(WORK, loader="mmap"))
    found(work=replace(WORK, rounds=3))
    assert len(simulations) == 3
    kept = KeptAnswers("simulated-counts", ("slowdown/simulator", "slowdown/curves"))
    monkeypatch.setattr("edgebench.slowdown.simulated_counts._KEPT", kept)
    found()
    assert len(simulations) == 4


@pytest.mark.parametrize("damage", [lambda d: d[:40], lambda d: d[:-1] + b"?", lambda d: b""])
def test_a_damaged_answer_is_worked_out_again(
    damage: Callable[[bytes], bytes], folder: Path, simulations: list[object]
):
    """And kept again, whole."""
    first = found()
    (file,) = files(folder)
    file.write_bytes(damage(file.read_bytes()))
    assert same(first, found())
    assert same(first, found())
    assert len(simulations) == 2


def test_the_layers_at_one_limit_are_kept_too(simulations: list[object]):
    """They are asked for task by task."""
    limits = np.array([70.0]) * MIB
    for _ in range(2):
        as_in_a_new_process()
        simulation.simulate(WORK, DEVICE, limits)
    assert len(simulations) == 1


def test_where_nothing_can_be_written_nothing_is_kept(
    folder: Path, simulations: list[object], monkeypatch: pytest.MonkeyPatch
):
    """The answers are the same."""
    folder.write_text("no folder")
    assert same(found(), found())
    assert len(simulations) == 2


def test_two_at_once_leave_one_whole_answer(folder: Path):
    """Whoever comes last replaces the file in one step."""
    both, answer = Barrier(2), np.arange(50_000.0)
    done = []

    def simulate() -> np.ndarray:
        both.wait(timeout=300)
        return answer

    def ask() -> None:
        done.append(kept_counts(("same",), answer.shape, simulate))

    threads = [Thread(target=ask) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(done) == 2
    assert len(files(folder)) == 1
    kept = kept_counts(("same",), answer.shape, lambda: pytest.fail("simulated again"))
    assert np.array_equal(kept, answer)


def test_the_oldest_answers_go_first(folder: Path):
    """The folder has a most size."""
    kept = KeptAnswers("small", ("cache",), most_bytes=3000)
    for number in range(5):
        kept.keep(b"%d" % number, os.urandom(900))
        for place, path in enumerate(sorted(files(folder), key=lambda p: p.stat().st_mtime_ns)):
            os.utime(path, (1000 + place, 1000 + place))
    assert [kept.find(b"%d" % n) is not None for n in range(5)] == [False, False, True, True, True]


@pytest.mark.root
def test_under_sudo_the_answers_belong_to_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """They lie in the caller's own cache."""
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 4321, 4321)
    tmp_path.chmod(0o755)
    monkeypatch.delenv("EDGEBENCH_CACHE")
    caller = cache.Identity(4321, 4321, (4321,), home)
    monkeypatch.setattr(cache, "caller_identity", lambda: caller)
    KeptAnswers("own", ("cache",)).keep(b"question", b"answer")
    (file,) = files(home)
    assert file.is_relative_to(home / ".cache" / "edgebench")
    assert {path.stat().st_uid for path in [file, *file.parents][:4]} == {4321}
    assert KeptAnswers("own", ("cache",)).find(b"question") == b"answer"
