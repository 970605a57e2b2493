"""What each version writes for a limit, how it reads it back, and limits above: plain files."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from kernel_files import plain_cgroup

from edgebench.cgroups import v1, v2
from edgebench.cgroups.files import (
    PAGE,
    UNLIMITED,
    check_applied,
    cpu_quota_above,
    is_busy,
    memory_high_above,
    memory_limit_above,
)
from edgebench.cgroups.interface import Limits
from edgebench.errors import CgroupError

MIB = 1 << 20


@pytest.mark.parametrize(
    ("got", "fits"), [(8192, True), (4097, True), (8193, False), (4096, False), (None, False)]
)
def test_a_limit_is_rounded_down_to_whole_pages(tmp_path: Path, got: int | None, fits: bool):
    check_applied(None, got, tmp_path)
    if fits:
        check_applied(8192, got, tmp_path)
        return
    with pytest.raises(CgroupError, match="8192 bytes was not applied") as refused:
        check_applied(8192, got, tmp_path)
    assert refused.value.where == str(tmp_path)


#: Version, limits → what is written in which file. On version 1 memory + swap is the sum, and
#: where there is to be no swap, it is above memory by a huge page, so that the kernel counts hits.
WRITTEN: list[tuple[int, Limits, dict[str, str]]] = [
    (
        1,
        Limits(100 * MIB, 50 * MIB, None, 0.5, 9),
        {
            "memory.limit_in_bytes": str(100 * MIB),
            "memory.memsw.limit_in_bytes": str(150 * MIB),
            "memory.swappiness": "60",
            "cpu.cfs_quota_us": "50000",
            "cpu.cfs_period_us": "100000",
            "pids.max": "9",
        },
    ),
    (
        1,
        Limits(100 * MIB, 0),
        {
            "memory.memsw.limit_in_bytes": str(100 * MIB + max(2 * MIB, 64 * PAGE)),
            "memory.swappiness": "0",
        },
    ),
    (1, Limits(100 * MIB), {"memory.memsw.limit_in_bytes": "-1", "cpu.cfs_quota_us": "-1"}),
    (
        2,
        Limits(100 * MIB, 50 * MIB, None, 1.5, 20, memory_high_bytes=80 * MIB),
        {
            "memory.max": str(100 * MIB),
            "memory.high": str(80 * MIB),
            "memory.swap.max": str(50 * MIB),
            "cpu.max": "150000 100000",
            "pids.max": "20",
        },
    ),
    (2, Limits(64 * MIB, 0), {"memory.swap.max": "0", "memory.high": "max", "pids.max": "max"}),
    (2, Limits(), {"memory.max": "max", "memory.swap.max": "max", "cpu.max": "max 100000"}),
]


@pytest.mark.parametrize(("version", "limits", "written"), WRITTEN)
def test_each_limit_is_written_in_its_file(
    tmp_path: Path, version: int, limits: Limits, written: dict[str, str]
) -> None:
    """Over an older limit, too; the kernel may kill, on version 2 the whole workload."""
    disabled = {"memory__oom_control": "oom_kill_disable 1\n"} if version == 1 else {}
    cgroup = plain_cgroup(tmp_path, version, **disabled)
    if version == 2:
        cgroup.set_limits(Limits(MIB, 7, pids=3, memory_high_bytes=MIB))
    assert cgroup.set_limits(limits) == limits
    assert {name: (tmp_path / name).read_text() for name in written} == written
    kills = ("memory.oom_control", "0") if version == 1 else ("memory.oom.group", "1")
    assert (tmp_path / kills[0]).read_text() == kills[1]


@pytest.mark.parametrize(
    ("limits", "missing"),
    [
        (Limits(MIB, MIB), "swap"),
        (Limits(cpu_quota=1.0), "cpu"),
        (Limits(pids=3), "pids"),
        (Limits(memory_high_bytes=MIB), "memory"),
    ],
)
def test_a_limit_without_its_file_is_refused(tmp_path: Path, limits: Limits, missing: str) -> None:
    (tmp_path / "memory.max").write_text("max\n")
    with pytest.raises(CgroupError, match=f"needs the {missing} controller"):
        v2.V2Cgroup(tmp_path, lambda: None).set_limits(limits)
    with pytest.raises(CgroupError, match="memory_high needs cgroup version 2"):
        plain_cgroup(tmp_path, 1).set_limits(Limits(memory_high_bytes=MIB))


@pytest.mark.parametrize(
    ("code", "busy", "waits", "tries"),
    [
        (errno.EBUSY, 19, True, 20),
        (errno.EBUSY, 20, True, None),
        (errno.EBUSY, 1, False, None),
        # What is refused for good.
        (errno.EINVAL, 1, True, None),
    ],
)
def test_version_1_tries_a_moved_limit_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    busy: int,
    waits: bool,
    tries: int | None,
) -> None:
    cgroup, pauses, put = plain_cgroup(tmp_path, 1), list[float](), v1.put
    answers = [OSError(code, "busy")] * busy

    def put_or_refuse(own: Any, name: str, value: object) -> None:
        if name == "limit_in_bytes" and answers:
            raise CgroupError("busy", where="", remedy="") from answers.pop()
        put(own, name, value)

    monkeypatch.setattr(v1, "put", put_or_refuse)
    monkeypatch.setattr(v1.time, "sleep", pauses.append)
    if tries:
        assert cgroup.move_memory_limit(32 * MIB, None, waits=waits) == 32 * MIB
        assert len(pauses) == tries - 1
        return
    with pytest.raises(CgroupError):
        cgroup.move_memory_limit(32 * MIB, None, waits=waits)
    assert len(pauses) == (19 if busy == 20 else 0)


@pytest.mark.parametrize("left_mib", [40, 33, 32])
def test_version_2_lowers_a_limit_only_to_what_it_could_reclaim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_mib: int
) -> None:
    """A limit below what is used would kill: without waiting it is refused as on version 1."""
    texts = {"memory__reclaim": "0", "memory__current": f"{40 * MIB}\n"}
    cgroup, asked = plain_cgroup(tmp_path, 2, **texts), list[int]()

    def reclaim(file: Path, size_bytes: int) -> bool:
        asked.append(size_bytes)
        (tmp_path / "memory.current").write_text(f"{left_mib * MIB}\n")
        return False

    monkeypatch.setattr(v2, "reclaim", reclaim)
    if left_mib == 32:
        assert cgroup.move_memory_limit(32 * MIB, None, waits=False) == 32 * MIB
    else:
        with pytest.raises(CgroupError) as refused:
            cgroup.move_memory_limit(32 * MIB, None, waits=False)
        assert is_busy(refused.value)
        assert (tmp_path / "memory.max").read_text() == "max\n"
    assert asked == [8 * MIB]
    # What is not above it needs no room; nor does a walk, which waits for the kernel.
    assert cgroup.move_memory_limit(64 * MIB, None, waits=False) == 64 * MIB
    assert cgroup.move_memory_limit(16 * MIB, None) == 16 * MIB
    assert asked == [8 * MIB]


@pytest.mark.parametrize(
    ("code", "done"), [(None, True), (errno.EAGAIN, False), (errno.EACCES, True)]
)
def test_reclaim_says_whether_it_did_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None, done: bool
) -> None:
    file = tmp_path / "memory.reclaim"
    if code:

        def refuse(*_: object) -> None:
            raise OSError(code, "no")

        monkeypatch.setattr(Path, "write_text", refuse)
    assert v2.reclaim(file, 8 * MIB) is done
    assert code or file.read_text() == str(8 * MIB)


@pytest.mark.parametrize(("version", "name"), [(1, "limit_in_bytes"), (2, "memory_max")])
def test_a_limit_that_the_kernel_ignores_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, name: str
) -> None:
    """A limit that reads back otherwise than asked for, by a page or more, is an error."""
    module: Any = v1 if version == 1 else v2
    cgroup, put = plain_cgroup(tmp_path, version), module.put

    def put_less(own: Any, file: str, value: Any) -> None:
        put(own, file, value - PAGE if file == name else value)

    monkeypatch.setattr(module, "put", put_less)
    with pytest.raises(CgroupError, match="was not applied"):
        cgroup.set_limits(Limits(MIB, 0))


#: Ours, the one above → the tightest: of memory.max, memory.high, and quotas of both versions.
ABOVE: list[tuple[str, str, str, str | None, Any]] = [
    ("memory.max", "max", "max", None, None),
    ("memory.max", "3000000", "2000000", "above", 2_000_000),
    ("memory.max", "2000000", "3000000", "own", 2_000_000),
    ("memory.high", "max", "5000", "above", 5000),
    ("memory.high", "4000", "5000", "own", 4000),
    ("cpu.max", "max 100000", "250000 50000", "above", 5.0),
    ("cpu.max", "50000 100000", "250000 100000", "own", 0.5),
    ("cpu.cfs_quota_us", "-1", "-1", None, None),
    ("cpu.cfs_quota_us", "-1", "75000", "above", 1.5),
    ("cpu.cfs_quota_us", "50000", "75000", "own", 1.0),
]


@pytest.mark.promise(
    "`edgebench doctor` reports and says what to type: `memory.high` set on a parent cgroup."
)
@pytest.mark.parametrize(("name", "own", "above", "where", "value"), ABOVE)
def test_the_tightest_limit_at_or_above_counts(
    tmp_path: Path, name: str, own: str, above: str, where: str | None, value: Any
):
    """In bytes, or in cores; of a throttle its file too. Without any file there is none."""
    folders = {"above": tmp_path / "above", "own": tmp_path / "above" / "own"}
    folders["own"].mkdir(parents=True)
    found = {
        "memory.max": lambda: memory_limit_above(2, folders["own"]),
        "memory.high": lambda: memory_high_above(folders["own"]),
        "cpu.max": lambda: cpu_quota_above(2, folders["own"]),
        "cpu.cfs_quota_us": lambda: cpu_quota_above(1, folders["own"]),
    }[name]
    assert found() is None
    for folder, text in zip(folders.values(), (above, own), strict=True):
        (folder / name).write_text(text)
        (folder / "cpu.cfs_period_us").write_text("50000")
    assert found() == ((value, folders[where] / name) if where and "high" in name else value)


@pytest.mark.parametrize(("limit", "ceiling"), [(4096, 4096), (UNLIMITED, None)])
def test_the_kernel_tells_version_1_s_own_ceiling(tmp_path: Path, limit: int, ceiling: int | None):
    (tmp_path / "memory.stat").write_text(f"cache 1\nhierarchical_memory_limit {limit}\n")
    assert memory_limit_above(1, tmp_path) == ceiling
