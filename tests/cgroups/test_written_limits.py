"""What each version writes for a limit, and how it reads it back, from plain files."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgebench.cgroups import v1, v2
from edgebench.cgroups.files import PAGE, is_busy
from edgebench.cgroups.interface import Limits
from edgebench.errors import CgroupError

MIB = 1 << 20
Files = Callable[[dict[str, str]], Path]
#: A fresh cgroup's files, as the kernel shows them.
V1_FILES = {
    "memory.limit_in_bytes": f"{v1.UNLIMITED}\n",
    "memory.memsw.limit_in_bytes": f"{v1.UNLIMITED}\n",
    "memory.swappiness": "60\n",
    "memory.oom_control": "oom_kill_disable 1\nunder_oom 0\noom_kill 0\n",
    "cpu.cfs_quota_us": "-1\n",
    "cpu.cfs_period_us": "50000\n",
    "pids.max": "max\n",
}
V2_FILES = {
    "memory.max": "max\n",
    "memory.high": "max\n",
    "memory.swap.max": "max\n",
    "memory.oom.group": "0\n",
    "cpu.max": "max 100000\n",
    "cpu.stat": "usage_usec 7\nuser_usec 5\nsystem_usec 2\nthrottled_usec 3\n",
    "pids.max": "max\n",
}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Writes files into a folder and returns it."""

    def write(texts: dict[str, str]) -> Path:
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
        return tmp_path

    return write


def text(folder: Path, name: str) -> str:
    """A file's text."""
    return (folder / name).read_text().strip()


def made_v1(folder: Path) -> v1.V1Cgroup:
    """A cgroup of version 1 whose controllers are mounted together."""
    return v1.V1Cgroup(dict.fromkeys(("memory", "cpu", "pids"), folder), lambda: None)


def test_version_2_writes_each_limit(files: Files) -> None:
    """Memory, swap alone, CPU and processes, each in its own file; read back as they are there."""
    folder = files(V2_FILES)
    asked = Limits(100 * MIB, 50 * MIB, cpu_quota=1.5, pids=20)
    assert v2.V2Cgroup(folder, lambda: None).set_limits(asked) == asked
    names = ("memory.max", "memory.swap.max", "cpu.max", "pids.max")
    written = [text(folder, name) for name in names]
    assert written == [str(100 * MIB), str(50 * MIB), "150000 100000", "20"]


def test_version_2_allows_no_swap_and_lifts_limits(files: Files) -> None:
    """No swap is written as 0, and no limit as ``max``, also over an older limit."""
    folder = files({**V2_FILES, "pids.max": "5\n"})
    cgroup = v2.V2Cgroup(folder, lambda: None)
    assert cgroup.set_limits(Limits(64 * MIB, 0)).swap_bytes == 0
    assert text(folder, "memory.swap.max") == "0"
    assert text(folder, "pids.max") == "max"
    cgroup.set_limits(Limits())
    assert text(folder, "memory.max") == text(folder, "memory.swap.max") == "max"


def test_version_2_throttles_from_a_size_on(files: Files) -> None:
    """``memory.high`` is written and read back, and lifted again; it holds memory too."""
    folder = files(V2_FILES)
    cgroup, asked = v2.V2Cgroup(folder, lambda: None), Limits(memory_high_bytes=80 * MIB)
    assert cgroup.set_limits(asked) == asked
    assert text(folder, "memory.high") == str(80 * MIB)
    assert (asked.lowest_bytes, Limits(64 * MIB, memory_high_bytes=80 * MIB).lowest_bytes) == (
        *(80 * MIB, 64 * MIB),
    )
    cgroup.set_limits(Limits())
    assert text(folder, "memory.high") == "max"


def test_version_1_has_no_throttle(files: Files) -> None:
    """It is refused, not ignored, and says why."""
    with pytest.raises(CgroupError, match=r"memory_high needs cgroup version 2: .* on version 1"):
        made_v1(files(V1_FILES)).set_limits(Limits(memory_high_bytes=80 * MIB))


def test_version_2_has_the_kernel_kill_the_whole_workload(files: Files) -> None:
    """``memory.oom.group`` is on as soon as the cgroup is made."""
    folder = files(V2_FILES)
    v2.V2Cgroup(folder, lambda: None)
    assert text(folder, "memory.oom.group") == "1"


def test_version_2_counts_cpu_time_in_nanoseconds(files: Files) -> None:
    """The kernel tells microseconds, to the counters and to the sampler alike."""
    cgroup = v2.V2Cgroup(files({**V2_FILES, "memory.current": "0\n"}), lambda: None)
    counters = cgroup.read()
    times = counters.cpu_ns, counters.user_ns, counters.system_ns, counters.throttled_ns
    assert times == (7000, 5000, 2000, 3000)
    assert cgroup.hot_files().cpu_unit_ns == 1000


@pytest.mark.parametrize(
    ("limits", "missing"),
    [
        (Limits(MIB, MIB), "swap"),
        (Limits(cpu_quota=1.0), "cpu"),
        (Limits(pids=3), "pids"),
        (Limits(memory_high_bytes=MIB), "memory"),
    ],
)
def test_a_limit_without_its_file_is_refused(files: Files, limits: Limits, missing: str) -> None:
    """What the kernel can't limit is never silently left unlimited."""
    folder = files({"memory.max": "max\n"})
    with pytest.raises(CgroupError, match=f"needs the {missing} controller"):
        v2.V2Cgroup(folder, lambda: None).set_limits(limits)


def test_version_1_limits_memory_and_swap_together(files: Files) -> None:
    """Memory + swap is the sum; swap is told alone."""
    folder = files(V1_FILES)
    applied = made_v1(folder).set_limits(Limits(100 * MIB, 50 * MIB, cpu_quota=0.5, pids=9))
    assert text(folder, "memory.limit_in_bytes") == str(100 * MIB)
    assert text(folder, "memory.memsw.limit_in_bytes") == str(150 * MIB)
    assert text(folder, "memory.swappiness") == "60"
    assert text(folder, "cpu.cfs_quota_us") == "50000"
    assert text(folder, "cpu.cfs_period_us") == "100000"
    assert applied == Limits(100 * MIB, 50 * MIB, None, 0.5, 9)


def test_version_1_without_swap_keeps_room_for_a_hit_to_be_counted(files: Files) -> None:
    """Memory + swap is above memory by more than one huge page; swappiness 0 keeps it unused."""
    folder = files(V1_FILES)
    applied = made_v1(folder).set_limits(Limits(100 * MIB, 0))
    room = int(text(folder, "memory.memsw.limit_in_bytes")) - 100 * MIB
    assert max(2 * MIB, 64 * PAGE) <= room <= 16 * MIB
    assert text(folder, "memory.swappiness") == "0"
    assert applied.swap_bytes == 0


def test_version_1_lets_the_kernel_kill(files: Files) -> None:
    """A cgroup that inherits a disabled OOM killer gets it back; else a trial would hang."""
    folder = files(V1_FILES)
    made_v1(folder)
    assert text(folder, "memory.oom_control") == "0"


@pytest.mark.parametrize("busy", [0, 1, 19, 20])
def test_version_1_tries_a_moved_limit_again(
    files: Files, monkeypatch: pytest.MonkeyPatch, busy: int
) -> None:
    """A limit that the kernel can't reclaim down to at once is tried 20 times, then refused."""
    cgroup = made_v1(files(V1_FILES))
    answers, pauses = [OSError(errno.EBUSY, "busy")] * busy, list[float]()
    put = v1.put

    def put_or_refuse(own: Any, name: str, value: object) -> None:
        if name == "limit_in_bytes" and answers:
            error = CgroupError("busy", where="", remedy="")
            raise error from answers.pop()
        put(own, name, value)

    monkeypatch.setattr(v1, "put", put_or_refuse)
    monkeypatch.setattr(v1.time, "sleep", pauses.append)
    if busy < 20:
        assert cgroup.move_memory_limit(32 * MIB, None) == 32 * MIB
        assert len(pauses) == busy
        return
    with pytest.raises(CgroupError):
        cgroup.move_memory_limit(32 * MIB, None)
    assert len(pauses) == 19


def test_version_1_does_not_repeat_another_refusal(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that the kernel refuses for good is refused at once."""
    cgroup = made_v1(files(V1_FILES))

    def refuse(*_: object) -> None:
        raise CgroupError("no", where="", remedy="") from OSError(errno.EINVAL, "invalid")

    monkeypatch.setattr(v1, "put", refuse)
    monkeypatch.setattr(v1.time, "sleep", lambda _: pytest.fail("waited"))
    with pytest.raises(CgroupError):
        cgroup.move_memory_limit(32 * MIB, None)


@pytest.mark.parametrize("reclaims", [True, False])
def test_version_2_lowers_a_limit_only_to_what_it_could_reclaim(
    files: Files, monkeypatch: pytest.MonkeyPatch, reclaims: bool
) -> None:
    """A limit below what is used would kill: without waiting it is refused as on version 1."""
    folder = files({**V2_FILES, "memory.reclaim": "", "memory.current": f"{40 * MIB}\n"})
    cgroup, asked = v2.V2Cgroup(folder, lambda: None), list[int]()

    def reclaim(file: Path, size_bytes: int) -> bool:
        asked.append(size_bytes)
        if reclaims:
            (folder / "memory.current").write_text(f"{32 * MIB}\n")
        return reclaims

    monkeypatch.setattr(v2, "reclaim", reclaim)
    if reclaims:
        assert cgroup.move_memory_limit(32 * MIB, None, waits=False) == 32 * MIB
    else:
        before = text(folder, "memory.max")
        with pytest.raises(CgroupError) as refused:
            cgroup.move_memory_limit(32 * MIB, None, waits=False)
        assert is_busy(refused.value)
        assert text(folder, "memory.max") == before
    assert asked == [8 * MIB]
    # What is not above it needs no room; nor does a walk, which waits for the kernel.
    assert cgroup.move_memory_limit(64 * MIB, None, waits=False) == 64 * MIB
    assert cgroup.move_memory_limit(16 * MIB, None) == 16 * MIB
    assert asked == [8 * MIB]


@pytest.mark.parametrize("version", [1, 2])
def test_a_limit_that_the_kernel_ignores_is_refused(
    files: Files, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """A limit that reads back otherwise than asked for, by a page or more, is an error."""
    module: Any = v1 if version == 1 else v2
    cgroup = (
        made_v1(files(V1_FILES)) if version == 1 else v2.V2Cgroup(files(V2_FILES), lambda: None)
    )
    name = "limit_in_bytes" if version == 1 else "memory_max"
    put = module.put

    def put_less(own: Any, file: str, value: Any) -> None:
        put(own, file, value - PAGE if file == name else value)

    monkeypatch.setattr(module, "put", put_less)
    with pytest.raises(CgroupError, match="was not applied"):
        cgroup.set_limits(Limits(MIB, 0))
