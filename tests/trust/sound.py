"""Sound files of each kind that edgebench reads: what broken ones are made from."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.results.results_making import inference_events, make_sweep

SCENARIO = (Path(__file__).parents[2] / "scenarios" / "quickstart.toml").read_bytes()
DUMP = (
    b"heap profile:   1234:  5678 [  2345:   9876] @ heapprofile\n"
    b"     1: 65536 [     1:    65536] @ 0x7f11 0x7f02\n\nMAPPED_LIBRARIES:\n"
    b"7f00-7fff r-xp 00000000 fe:00 123 /usr/lib/libtorch.so\n"
)
MASSIF = (
    b"desc: --time-unit=ms\ncmd: ./program\ntime_unit: ms\n#-----------\nsnapshot=0\n#-----------\n"
    b"time=120\nmem_heap_B=1000\nmem_heap_extra_B=24\nmem_stacks_B=0\nheap_tree=peak\n"
    b"n1: 1000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.\n"
    b" n0: 1000 0x109156: main (program.c:7)\n"
)
CGROUP_FILE = b"total_rss 5\nsome avg10=0.0 total=7\n253:0 rbytes=1 wbytes=2\n8:0 Read 4096\n12\n"
MOUNTS = b"35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
REPORT = (
    b'{"wall_s":1.5,"user_s":1.0,"system_s":0.1,"maxrss_kib":9000,"major_faults":1,'
    b'"minor_faults":9,"voluntary_switches":3,"involuntary_switches":2,"exit_code":0}\n'
)


def events() -> bytes:
    """A worker's events."""
    return "".join(json.dumps(event) + "\n" for event in inference_events()).encode()


def trials() -> bytes:
    """The lines of a sweep's trials."""
    with tempfile.TemporaryDirectory() as folder:
        return (make_sweep(Path(folder)) / "trials.jsonl").read_bytes()
