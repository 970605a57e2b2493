"""Files of programs: found by themselves, evicted before the next trial, needs told in parts."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import edgebench
from edgebench.answers.trials import is_warm
from edgebench.cgroups.interface import Counters
from edgebench.cgroups.process_files import cached_bytes, named_files
from edgebench.cgroups.sampler_process import SampleSummary
from edgebench.errors import WorkloadError
from edgebench.measures.gnu_time import GnuTime
from edgebench.need import need_of
from edgebench.records import FilesReport, LimitSetting, TrialRecord
from edgebench.run.trial.readers import Finished, MapsReadings
from edgebench.run.trial.record import TrialRequest
from edgebench.run.trial.session import LOOK_S, Session, TrialSetup, UsedFiles
from edgebench.run.trial.trial import TrialFiles, run_trial
from edgebench.run.trial.trial_readers import FilesReadings, files_report
from tests.chance import given_time

MIB = 1 << 20
WEIGHTS = 48 * MIB
#: A child of a shell uses the file that a variable names, so that no word of the command does.
MAPS = """
import mmap, os, time
file = open(os.environ["MODEL"], "rb")
held = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
file.close()
sum(held[at] for at in range(0, len(held), 4096))
time.sleep(float(os.environ.get("HELD_S", 0.3)))
"""


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    file = tmp_path / "model.bin"
    file.write_bytes(os.urandom(MIB) * (WEIGHTS // MIB))
    file.chmod(0o644)
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        while opened.read(MIB):
            pass
    if not evictable(file):
        pytest.skip("the temporary folder is on no disk")
    return file


def evictable(file: Path) -> bool:
    """Whether the kernel drops its pages; then they are read again."""
    used = UsedFiles()
    used.add([file])
    if used.evict():
        return False
    file.read_bytes()
    return True


def cached(file: Path) -> int:
    with file.open("rb") as opened:
        found = cached_bytes(opened.fileno())
        assert found is not None
        return found


@pytest.fixture(params=[True, False], ids=["search", "once"])
def setup(session: Session, request: pytest.FixtureRequest) -> TrialSetup:
    """That of a search, in which trials follow, and that of a single trial; no file is known."""
    return replace(session.setup, starts_cold=request.param, files=UsedFiles())


def run(
    setup: TrialSetup,
    code: str,
    weights: Path,
    folder: Path,
    limit: int | None = None,
    held_s: float = 0.3,
) -> TrialRecord:
    command = ["sh", "-c", f"{sys.executable} -I -S -c '{code}'; true"]
    env = {"MODEL": str(weights), "HELD_S": str(held_s)}
    settings = {"kind": "command", "command": command, "env": env}
    limits = LimitSetting(label="limited" if limit else "max", memory_bytes=limit)
    request = TrialRequest("0001", "p1", 0, 0, settings, limits, 60.0)
    return run_trial(setup, request, TrialFiles.scratch(folder))


@pytest.mark.exclusive
@pytest.mark.quick
def test_a_mapped_file_is_needed_cold_and_warm(
    setup: TrialSetup, weights: Path, tmp_path: Path
) -> None:
    """Case 8: found by itself; the same need, told in parts; only a trial alone is warm."""

    def check(held_s: float) -> None:
        fresh = replace(setup, files=UsedFiles())
        weights.read_bytes()
        record = run(fresh, MAPS, weights, tmp_path, held_s=held_s)
        need = need_of(record)
        assert need is not None, (record.outcome, record.reason, record.missing)
        assert record.files is not None
        assert record.files.paths == [str(weights)]
        held = need.undroppable_bytes
        assert held is not None
        assert held < 16 * MIB
        assert abs(need.files_bytes - WEIGHTS) < 0.05 * WEIGHTS
        assert record.demand_bytes is not None
        assert record.peak_bytes is not None
        assert record.demand_bytes <= record.peak_bytes
        if fresh.starts_cold:
            assert record.peak_bytes > WEIGHTS
            assert not is_warm(record)
        else:
            assert record.peak_bytes < WEIGHTS
            assert is_warm(record)
            # The kernel may have dropped a few pages before: one was missing once.
            assert WEIGHTS - 16 * mmap.PAGESIZE <= record.files.warm_bytes <= WEIGHTS
            # What was found is evicted from now on, whatever read it meanwhile.
            again = run(fresh, MAPS, weights, tmp_path, 200 * MIB, held_s)
            assert again.peak_bytes is not None
            assert again.peak_bytes > WEIGHTS
            assert not is_warm(again)

    given_time(check)


@pytest.mark.exclusive
@pytest.mark.parametrize("setup", [False], indirect=True)
def test_what_another_program_maps_stays_and_is_said(
    setup: TrialSetup, weights: Path, tmp_path: Path
) -> None:
    """Its pages can't be dropped: the need has them, no limit counts them, nothing runs twice."""
    holds = f"{MAPS}\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", holds],
        env={"MODEL": str(weights)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()

        def check(held_s: float) -> None:
            run(setup, MAPS, weights, tmp_path, held_s=held_s)
            record = run(setup, MAPS, weights, tmp_path, held_s=held_s)
            need = need_of(record)
            assert need is not None, (record.outcome, record.reason, record.missing)
            assert abs(need.elsewhere_bytes - WEIGHTS) < 0.05 * WEIGHTS
            assert abs(need.files_bytes - WEIGHTS) < 0.05 * WEIGHTS
            assert need.has_much_elsewhere
            assert is_warm(record)

        given_time(check)
        holder.kill()


@pytest.mark.exclusive
def test_what_is_evicted(tmp_path: Path, weights: Path) -> None:
    dirty = tmp_path / "dirty.bin"
    dirty.write_bytes(os.urandom(MIB) * 4)
    os.mkfifo(tmp_path / "fifo")
    used = UsedFiles()
    used.add([weights, dirty, tmp_path / "fifo", tmp_path, tmp_path / "gone"])
    assert used.evict() == 0
    assert cached(dirty) == cached(weights) == 0
    with weights.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as held:
        assert sum(held[at] for at in range(0, len(held), 4096)) > 0
        assert used.evict() == WEIGHTS


def test_files_and_folders_that_are_named(tmp_path: Path) -> None:
    (tmp_path / "model" / "parts").mkdir(parents=True)
    part = tmp_path / "model" / "parts" / "1.bin"
    part.write_bytes(bytes(MIB))
    used = UsedFiles()
    used.add_below([str(tmp_path / "model")])
    assert list(used._paths) == [part]
    with pytest.raises(WorkloadError, match="there is no file"):
        used.add_below([str(tmp_path / "gone.bin")])


@pytest.mark.exclusive
def test_a_share_is_of_a_need_that_counts_files(weights: Path) -> None:
    """The limited trial begins with the files evicted that the unlimited one was seen to use."""
    words = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        MAPS.replace('os.environ["MODEL"]', repr(str(weights))),
    ]
    record = edgebench.measure(words, memory="75%", quiet=True)
    assert record.limit_bytes is not None
    assert record.limit_bytes > 0.7 * WEIGHTS
    assert record.saturated is True


def test_files_that_a_command_names(tmp_path: Path) -> None:
    large, small = tmp_path / "large.gguf", tmp_path / "small.py"
    large.write_bytes(bytes(2 * MIB))
    small.write_bytes(b"x")
    words = ["prog", "small.py", "--model=large.gguf", str(large), "-", "", "a" * 5000]
    assert set(named_files(words, tmp_path)) == {large.resolve()}


def late_report(
    maxrss: int, *, is_mapped: bool, took_s: float = 0.0
) -> tuple[FilesReport | None, dict[str, str]]:
    file = Path("/srv/model.bin")
    mapped = frozenset([file] if is_mapped else [])
    counters = Counters(peak_bytes=2 * WEIGHTS, file_bytes=WEIGHTS, shmem_bytes=0)
    return files_report(
        FilesReadings({file: WEIGHTS}, mapped, {file: 0.0}, took_s=took_s),
        MapsReadings(library_bytes=5 * MIB, elsewhere_bytes=0),
        Finished(counters, GnuTime(maxrss, 0.1, 0.1, 0.0, 0, 0, 0, 0, 0)),
        SampleSummary(WEIGHTS, None, WEIGHTS - 12 * MIB, "sampled", 8 * MIB),
        kept_bytes=0,
    )


@pytest.mark.promise("A sparse file of any size keeps no trial waiting for more than seconds.")
def test_a_sparse_file_is_looked_at_for_seconds_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux 6.5 and newer count its cached pages; before, 8 TiB took minutes."""
    with (tmp_path / "sparse").open("w+b") as file:
        try:
            file.truncate(8 << 40)
        except OSError:
            pytest.skip("the file system takes no such file")
        file.read(MIB)
        size = cached_bytes(file.fileno(), time.monotonic() + 60)
    assert size is None or MIB <= size < 64 * MIB
    monkeypatch.setattr("edgebench.cgroups.process_files._CACHESTAT", -1)
    with (tmp_path / "sparse").open("rb") as file:
        assert cached_bytes(file.fileno(), time.monotonic()) is None
    report, missing = late_report(WEIGHTS, is_mapped=True, took_s=2 * LOOK_S)
    assert report is not None
    assert report.warm_bytes is None
    assert f"took more than {LOOK_S} s" in missing["files.warm_bytes"]


@pytest.mark.parametrize(
    ("is_mapped", "maxrss", "late"),
    [
        # The last sample was 10 ms before its end.
        (True, WEIGHTS + 9 * MIB, 16 * MIB),
        # Never more than lies of the file in the page cache.
        (True, WEIGHTS + 40 * MIB, 20 * MIB),
        (True, WEIGHTS - 20 * MIB, 0),
        (False, WEIGHTS + 9 * MIB, 0),
    ],
)
def test_what_is_mapped_after_the_last_sample_is_needed(
    is_mapped: bool, maxrss: int, late: int
) -> None:
    """GNU time's largest resident set knows it, without libraries."""
    report, _ = late_report(maxrss, is_mapped=is_mapped)
    assert report is not None
    assert report.late_bytes == late
