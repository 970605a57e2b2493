"""Massif's file: the figures of each whole snapshot, on the worker's clock."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.errors import ResultsError
from edgebench.measures.strategies.heap_profilers import Massif, parse_massif

FILE = """\
desc: --time-unit=ms
cmd: ./program
time_unit: ms
#-----------
snapshot=0
#-----------
time=0
mem_heap_B=0
mem_heap_extra_B=0
mem_stacks_B=0
heap_tree=empty
#-----------
snapshot=1
#-----------
time=120
mem_heap_B=1000
mem_heap_extra_B=24
mem_stacks_B=0
heap_tree=peak
n2: 1000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
 n1: 700 0x1091: load (program.c:7)
  n0: 700 0x1092: main (program.c:9)
 n0: 300 in 12 places, all below massif's threshold (1.00%)
"""


@pytest.mark.parametrize("text", ["", "heap profile: 1", FILE[:20], "desc: x\ncmd: y\n"])
def test_what_is_no_massif_file_is_refused(text: str) -> None:
    with pytest.raises(ResultsError, match="massif"):
        parse_massif(text)


@given(st.integers(FILE.index("time_unit") + 20, len(FILE)))
def test_a_file_cut_anywhere_keeps_its_whole_figures(cut: int) -> None:
    whole = [(0, 0), (120, 1000)]
    snapshots = parse_massif(FILE[:cut])
    assert snapshots == whole[: len(snapshots)]
    assert len(snapshots) == 2 or cut < FILE.index("mem_heap_B=1000") + 16


def test_snapshots_are_on_the_workers_clock(tmp_path: Path) -> None:
    """Milliseconds from valgrind's start: its log's last line was 1 d 2 h 3 min 4.5 s after it."""
    (tmp_path / "massif.out").write_text(FILE)
    log = tmp_path / "valgrind.log"
    log.write_text("==00:00:00:00.001 7== begins\n==01:02:03:04.500 7== ends\n")
    os.utime(log, ns=(0, 200_000 * 10**9))
    points = Massif().profile(tmp_path, {}, 1000 * 10**9).points
    start_ns = (200_000 - 1000) * 10**9 - 93_784_500_000_000
    assert [(one.t_ns - start_ns, one.live_bytes) for one in points] == [
        (0, 0),
        (120_000_000, 1000),
    ]


@pytest.mark.process
@pytest.mark.skipif(
    not (shutil.which("valgrind") and shutil.which("ms_print")),
    reason="needs valgrind (apt-get install valgrind)",
)
def test_figures_are_those_of_ms_print(tmp_path: Path) -> None:
    out = tmp_path / "massif.out"
    words = [sys.executable, "-I", "-S", "-c", "[bytes(n * 1000) for n in range(300)]"]
    massif = ["valgrind", "-q", "--tool=massif", "--time-unit=ms", f"--massif-out-file={out}"]
    subprocess.run([*massif, *words], check=True)
    printed = subprocess.run(["ms_print", out], check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^ *\d+ +([\d,]+) +[\d,]+ +([\d,]+) +[\d,]+ +0$", printed, re.M)
    told = [tuple(int(figure.replace(",", "")) for figure in row) for row in rows]
    assert parse_massif(out.read_text()) == told
    assert told
