"""The results folder: what it holds, who may write, and what a kill or a cut leaves of it."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from results_making import NETWORKS, loading, make_sweep, write_files

from edgebench import load
from edgebench.errors import ResultsError
from edgebench.records import SCHEMA
from edgebench.results.folder import ResultsFolder, find_sweep, is_being_written
from edgebench.results.layout import TRIALS, open_locked


def new_folder(root: Path) -> ResultsFolder:
    about = {"fingerprint": "f00d"}
    return ResultsFolder.create(root, "board", "quick", "x = 1\n", about, {"kernel": "6"}, NETWORKS)


def test_a_new_folder_holds_all_that_is_known_before_the_first_trial(tmp_path: Path):
    with new_folder(tmp_path) as folder:
        assert (folder.path / "scenario.toml").read_text() == "x = 1\n"
        for name in ("resolved.json", "environment.json", "networks.json"):
            assert json.loads((folder.path / name).read_text())["schema"] == SCHEMA
        assert folder.path.parent == tmp_path / "board"
        assert re.fullmatch(r"\d{8}T\d{6}Z-quick-[0-9a-f]+", folder.path.name)
        assert not list(folder.path.parent.glob(".*"))


def test_sweeps_of_one_second_sort_by_their_start(tmp_path: Path):
    made = []
    for _ in range(20):
        with new_folder(tmp_path) as folder:
            made.append(folder.path)
    assert sorted(made) == made


def test_only_results_count_as_finished(tmp_path: Path):
    made = loading("0002", outcome="oom-killed", wall_s=0.1 + 0.2, noise={"steal_share": 1 / 3})
    with new_folder(tmp_path) as folder:
        folder.append(loading("0001", outcome="interrupted"))
        folder.append(made)
        assert folder.finished_trials() == {"0002"}
        folder.append(loading("0001"))
        assert [record.outcome for record in folder.records()] == ["ok", "oom-killed"]
        assert folder.records()[1] == made


def test_two_writers_are_refused(tmp_path: Path):
    with new_folder(tmp_path) as folder:
        assert is_being_written(folder.path)
        with pytest.raises(ResultsError, match="another sweep is writing"):
            ResultsFolder.open(folder.path)
    assert not is_being_written(folder.path)


@pytest.mark.promise(
    "No trial's id and no device name can be used to read or write outside the results."
)
@pytest.mark.parametrize("name", ["../evil", "", ".hidden", "a/b", "a b"])
def test_names_that_are_no_file_names_are_refused(tmp_path: Path, name: str):
    with pytest.raises(ResultsError, match="can't name a file"):
        ResultsFolder.create(tmp_path, name, "quick", "", {}, {})
    with new_folder(tmp_path) as folder, pytest.raises(ResultsError, match="can't name a file"):
        folder.samples_path(name)


def test_an_unwritable_root_is_named(tmp_path: Path):
    """A root that can't be a folder gives one clear error, and nothing is left."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="can't write results") as caught:
        new_folder(tmp_path / "file")
    assert "--results" in str(caught.value)


def test_unfinished_is_found_by_meaning_and_device(tmp_path: Path):
    path = make_sweep(tmp_path, finish=False)
    make_sweep(tmp_path, device="other", finish=False)
    assert find_sweep(tmp_path, "board", "f00d") == path
    assert find_sweep(tmp_path, "board", "beef") is None
    assert find_sweep(tmp_path / "nowhere", "board", "f00d") is None
    with ResultsFolder.open(path) as folder:
        folder.finish({})
    assert find_sweep(tmp_path, "board", "f00d") is None


def test_a_newer_folder_is_not_gone_on_with(tmp_path: Path):
    path = make_sweep(tmp_path, finish=False)
    with (path / "trials.jsonl").open("a") as file:
        file.write(json.dumps({**loading("0099").to_json(), "schema": SCHEMA + 1}) + "\n")
    with pytest.raises(ResultsError, match=f"schema {SCHEMA + 1}") as caught:
        ResultsFolder.open(path)
    assert "pip install -U edgebench" in str(caught.value)
    assert not is_being_written(path)


@pytest.mark.promise("An incomplete line costs only its own trial.")
@pytest.mark.parametrize("read_at_once", [1, 40, 1 << 20])
def test_a_cut_anywhere_costs_at_most_the_last_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_at_once: int
):
    monkeypatch.setattr("edgebench.results.folder._TAIL_BYTES", read_at_once)
    with new_folder(tmp_path) as folder:
        for trial in ("0001", "0002", "0003"):
            folder.append(loading(trial, phases=[], notes={"text": "ä\u2028"}))
    file = folder.path / "trials.jsonl"
    data = file.read_bytes()
    ends = [at + 1 for at, byte in enumerate(data) if byte == 10]
    near = {end + off for end in ends for off in (-2, -1, 0, 1, 30)}
    for length in sorted(near & set(range(len(data) + 1)) | {0, 1}):
        file.write_bytes(data[:length])
        whole = data[:length].count(b"\n")
        assert len(load(folder.path).sweeps[0].records) == whole
        with ResultsFolder.open(folder.path) as again:
            assert len(again.records()) == whole
            assert file.read_bytes() == data[: data[:length].rfind(b"\n") + 1]


@pytest.mark.parametrize("tail", [b"\0" * 4096, b"\0" * 10 + b"\n", b'{"trial": ', b"[1]\n"])
def test_a_damaged_end_is_cut(tmp_path: Path, tail: bytes):
    path = make_sweep(tmp_path, finish=False)
    with (path / "trials.jsonl").open("ab") as file:
        file.write(tail)
    loaded = load(path)
    assert len(loaded.sweeps[0].records) == 9
    assert any("torn" in words for words in loaded.warnings)
    with ResultsFolder.open(path) as folder:
        folder.append(loading("0100"))
        assert len(folder.records()) == 10
    assert load(path).warnings == []


@pytest.mark.promise("A trial's line is written to disk after the trial's other files.")
def test_a_trials_own_files_reach_the_disk_before_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    done: list[str] = []
    real_sync, real_write = os.fsync, os.write

    def name_of(descriptor: int) -> str:
        return Path(f"/proc/self/fd/{descriptor}").readlink().name

    def sync(descriptor: int) -> None:
        done.append(f"sync {name_of(descriptor)}")
        real_sync(descriptor)

    def write(descriptor: int, data: bytes) -> int:
        done.append(f"write {name_of(descriptor)}")
        return real_write(descriptor, data)

    made = loading()
    with new_folder(tmp_path) as folder:
        write_files(folder, made)
        monkeypatch.setattr(os, "fsync", sync)
        monkeypatch.setattr(os, "write", write)
        folder.append(made)
        monkeypatch.undo()
    line = done.index("write trials.jsonl")
    before = {"sync 0001.npz", "sync 0001.jsonl.gz", "sync 0001.log"}
    before |= {"sync samples", "sync events", "sync logs"}
    assert before <= set(done[:line])
    assert done[line + 1 :] == ["sync trials.jsonl"]


def write_sweep(root: Path, trials: int = 3) -> None:
    found = find_sweep(root, "board", "f00d")
    with ResultsFolder.open(found) if found else new_folder(root) as folder:
        for trial in (f"{number:04d}" for number in range(trials)):
            if trial not in folder.finished_trials():
                made = loading(trial)
                write_files(folder, made)
                folder.append(made)
        folder.finish({"trials": trials})


def killed_at(step: int, write: Callable[[], None]) -> bool:
    """Whether a process that is to write was killed: before it changed a file for the n-th time."""
    child = os.fork()
    if child == 0:
        left = step

        def count(real: Callable[..., Any]) -> Callable[..., Any]:
            def counted(*given: Any, **named: Any) -> Any:
                nonlocal left
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return None if real is os.fsync else real(*given, **named)

            return counted

        try:
            for name in ("fsync", "write", "rename", "replace", "mkdir", "ftruncate", "link"):
                setattr(os, name, count(getattr(os, name)))
            write()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.process
@pytest.mark.promise("A sweep that was killed is complete after it was started again.")
def test_a_writer_killed_anywhere_ends_complete_and_without_duplicates(tmp_path: Path):
    kills = 0
    for step in itertools.count(0, 3):
        root = tmp_path / str(step)
        root.mkdir()
        killed = killed_at(step, lambda root=root: write_sweep(root))
        kills += killed
        written = [file.read_text() for file in root.glob("board/[!.]*/trials.jsonl")]
        before = [line for text in written for line in text.splitlines(keepends=True)]
        # Killed right after the completion mark: nothing is left to do.
        if not list(root.glob("board/[!.]*/complete.json")):
            write_sweep(root)
        (only,) = (root / "board").iterdir()
        lines = (only / "trials.jsonl").read_text().splitlines(keepends=True)
        assert [json.loads(line)["trial"] for line in lines] == ["0000", "0001", "0002"]
        assert [line for line in before if line.endswith("\n")] == lines[: len(before)]
        assert all(len(load(only).samples(f"{n:04d}")) == 3 for n in range(3))
        assert (only / "complete.json").exists()
        assert not list(root.rglob(".*"))
        if not killed:
            break
    assert kills > 10


def test_a_full_disk_leaves_the_lines_that_were_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    real = os.write

    def half(descriptor: int, data: bytes) -> int:
        if len(data) < 100:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[: len(data) // 2])

    with new_folder(tmp_path) as folder:
        folder.append(loading("0001"))
        before = (folder.path / "trials.jsonl").read_bytes()
        monkeypatch.setattr(os, "write", half)
        with pytest.raises(ResultsError, match="can't write results: No space left"):
            folder.append(loading("0002"))
        monkeypatch.undo()
        assert (folder.path / "trials.jsonl").read_bytes() == before
        folder.append(loading("0003"))
        assert folder.finished_trials() == {"0001", "0003"}


def test_a_half_made_folder_of_a_killed_start_is_cleared(tmp_path: Path):
    left, held = (tmp_path / "board" / f".20260101T00000{n}Z-quick-abcdef.part" for n in (0, 1))
    for part in (left, held):
        part.mkdir(parents=True)
        (part / TRIALS).touch()
    descriptor = open_locked(held / TRIALS)
    new_folder(tmp_path).close()
    assert (left.exists(), held.exists()) == (False, True)
    os.close(descriptor)
