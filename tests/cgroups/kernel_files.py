"""A cgroup of each version as plain files; no two of their numbers are the same."""

from __future__ import annotations

from pathlib import Path

from edgebench.cgroups.files import UNLIMITED
from edgebench.cgroups.interface import HotFiles
from edgebench.cgroups.v1 import V1Cgroup
from edgebench.cgroups.v2 import V2Cgroup

#: A ``total_`` key counts the cgroups below, too. Hits of the limit: of memory, and with swap.
V1_FILES = {
    "memory.usage_in_bytes": "40100\n",
    "memory.max_usage_in_bytes": "40700\n",
    "memory.memsw.usage_in_bytes": "40603\n",
    "memory.memsw.max_usage_in_bytes": "41900\n",
    "memory.kmem.usage_in_bytes": "1200\n",
    "memory.failcnt": "3\n",
    "memory.memsw.failcnt": "4\n",
    "memory.limit_in_bytes": f"{UNLIMITED}\n",
    "memory.memsw.limit_in_bytes": f"{UNLIMITED}\n",
    "memory.swappiness": "60\n",
    "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
    "memory.stat": (
        "cache 1\nrss 2\nshmem 3\nmapped_file 4\npgpgin 5\npgfault 6\npgmajfault 7\nswap 8\n"
        "total_cache 5000\ntotal_rss 6000\ntotal_rss_huge 9\ntotal_shmem 700\n"
        "total_mapped_file 800\ntotal_swap 330\ntotal_swapcached 44\ntotal_pgpgin 51\n"
        "total_pgpgout 52\ntotal_pgfault 120\ntotal_pgmajfault 17\ntotal_pswpin 11\n"
        "total_pswpout 13\ntotal_workingset_refault_anon 21\ntotal_workingset_refault_file 23\n"
    ),
    "cpuacct.usage": "1234567\n",
    "cpuacct.stat": "user 31\nsystem 19\n",
    "cpu.stat": "nr_periods 61\nnr_throttled 62\nthrottled_time 63\n",
    "cpu.cfs_quota_us": "-1\n",
    "cpu.cfs_period_us": "50000\n",
    "pids.max": "max\n",
    "blkio.throttle.io_service_bytes_recursive": (
        "8:0 Read 71\n8:0 Write 72\n8:0 Total 143\n8:16 Read 80\n8:16 Write 91\nTotal 314\n"
    ),
}
V2_FILES = {
    "memory.current": "40100\n",
    "memory.peak": "40700\n",
    "memory.swap.current": "330\n",
    "memory.swap.peak": "350\n",
    "memory.max": "max\n",
    "memory.high": "max\n",
    "memory.swap.max": "max\n",
    "memory.oom.group": "0\n",
    "memory.events": "low 1\nhigh 5\nmax 7\noom 9\noom_kill 2\noom_group_kill 6\n",
    "memory.stat": (
        "anon 6000\nfile 5000\nkernel 1200\nkernel_stack 31\npagetables 340\nshmem 700\n"
        "file_mapped 800\nswapcached 44\nslab 410\nworkingset_refault_anon 21\n"
        "workingset_refault_file 23\npgfault 120\npgmajfault 17\npgpgin 51\npgpgout 52\n"
        "pswpin 11\npswpout 13\n"
    ),
    "memory.pressure": (
        "some avg10=0.50 avg60=0.20 avg300=0.10 total=95\n"
        "full avg10=0.40 avg60=0.10 avg300=0.00 total=73\n"
    ),
    "cpu.max": "max 100000\n",
    "cpu.stat": (
        "usage_usec 77\nuser_usec 50\nsystem_usec 27\nnr_periods 61\nnr_throttled 62\n"
        "throttled_usec 63\n"
    ),
    "io.stat": (
        "8:0 rbytes=71 wbytes=72 rios=1 wios=2 dbytes=3 dios=4\n"
        "8:16 rbytes=80 wbytes=91 rios=5 wios=6 dbytes=7 dios=8\n"
    ),
    "pids.max": "max\n",
}


def write_files(folder: Path, texts: dict[str, str]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder


def plain_cgroup(folder: Path, version: int, **texts: str) -> V1Cgroup | V2Cgroup:
    """A cgroup of these files, a version's own but for ``texts``; ``""`` leaves a file out.

    On version 1 its controllers are mounted together. A name's dots are written as ``__``.
    """
    changed = {name.replace("__", "."): text for name, text in texts.items()}
    every = {**(V1_FILES if version == 1 else V2_FILES), **changed}
    write_files(folder, {name: text for name, text in every.items() if text})
    if version == 2:
        return V2Cgroup(folder, lambda: None)
    controllers = ("memory", "cpu", "cpuacct", "blkio", "pids")
    return V1Cgroup(dict.fromkeys(controllers, folder), lambda: None)


def plain_hot_files(folder: Path, version: int, **texts: str) -> HotFiles:
    hot = plain_cgroup(folder, version, **texts).hot_files()
    if hot.peak and version == 2:
        # A plain file keeps the word that resets a kernel's.
        hot.peak.write_text(V2_FILES["memory.peak"])
    return hot
