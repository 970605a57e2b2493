"""Searches of small programs on real cgroups, whose right answers were found by hand."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import edgebench
from edgebench.text import MIB

pytestmark = pytest.mark.own_cgroup

#: Fills, and gives the kernel back what it may take whenever it wants (MADV_FREE), step by step.
LAZY = """
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int c, char **v) {
  size_t step = 1 << 20; int held = atoi(v[1]), freed = atoi(v[2]);
  for (int i = 0; i < held + freed; i++) {
    char *p = mmap(0, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(p, i + 1, step);
    if (i >= held) madvise(p, step, MADV_FREE);
  }
  usleep(150000); return 0;
}
"""


def built(folder: Path, source: str) -> str:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc")
    (folder / "prog.c").write_text(source)
    program = str(folder / "prog")
    subprocess.run(["gcc", "-O1", "-o", program, str(folder / "prog.c")], check=True)
    return program


def test_memory_that_is_freed_late_is_not_what_is_given(tmp_path: Path):
    """It takes 160 MiB when it may, and finishes with little more than 37: so much is given."""
    program = built(tmp_path, LAZY)
    found = edgebench.minimum([program, "37", "123"], slowdown=20, results=tmp_path)
    assert found.needs_bytes > 155 * MIB
    assert found.answer.refuted
    assert found.give_bytes is not None
    assert 36 * MIB < found.give_bytes <= 42 * MIB


#: Reads a file by pread, so many times over, as a database or a stream of weights does.
STREAMS = """
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
for epoch in range(int(sys.argv[2])):
    for at in range(0, os.fstat(file).st_size, 1 << 16):
        os.pread(file, 1 << 16, at)
"""


@pytest.mark.parametrize(("epochs", "files"), [(1, 0), (4, 61)])
def test_a_file_that_is_read_again_and_again_is_needed(tmp_path: Path, epochs: int, files: int):
    data = tmp_path / "data.db"
    data.write_bytes(os.urandom(61 * MIB))
    command = [sys.executable, "-S", "-c", STREAMS, str(data), str(epochs)]
    record = edgebench.measure(command, quiet=True)
    assert record.demand_bytes is not None
    assert record.undroppable_bytes is not None
    held = record.undroppable_bytes
    assert held < 20 * MIB
    assert record.demand_bytes - held == pytest.approx(files * MIB, abs=2 * MIB)


def test_what_is_given_is_no_slower_where_a_file_is_read_again(tmp_path: Path):
    data = tmp_path / "data.db"
    data.write_bytes(os.urandom(61 * MIB))
    command = [sys.executable, "-S", "-c", STREAMS, str(data), "5"]
    found = edgebench.minimum(
        command, storage="read=90MB/s", slowdown=1.8, files=[data], results=tmp_path / "results"
    )
    assert found.give_bytes is not None
    assert 50 * MIB < found.give_bytes <= found.needs_bytes + 2 * MIB
    assert found.needs_bytes > 62 * MIB


#: Keeps every line of its input.
KEEP = "import sys; kept = sys.stdin.readlines(); print(len(kept), 'lines')"
PROGRAM = [sys.executable, "-c", KEEP]


def run(
    verb: str, folder: Path, *flags: str, program: Sequence[str] = PROGRAM, **about: Any
) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "edgebench", verb, *flags, "--", *program]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, **about)


def ask(folder: Path, *flags: str) -> tuple[str, str]:
    program = sys.executable, "prog.py"
    done = run("minimum", folder, "--json", "--confirm", "0", *flags, program=program)
    assert done.returncode in (0, 4), done.stderr
    return json.loads(done.stdout)["folder"], done.stderr


def test_the_finished_search_is_shown_again(tmp_path: Path):
    program = tmp_path / "prog.py"
    program.write_text("kept = bytearray(23 << 20)\n")
    hour_ago = time.time() - 3600
    os.utime(program, (hour_ago, hour_ago))
    first, _ = ask(tmp_path)
    again, said = ask(tmp_path)
    assert again == first
    assert "--fresh: a new search" in said
    assert ask(tmp_path, "--fresh")[0] != first
    newest = ask(tmp_path)[0]
    assert newest != first
    assert ask(tmp_path, "--within", "90M")[0] not in (first, newest)
    program.write_text("kept = bytearray(31 << 20)\n")
    assert ask(tmp_path)[0] not in (first, newest)


def test_each_trial_reads_the_file_from_its_beginning(tmp_path: Path):
    lines, needs = tmp_path / "prompts.txt", []
    lines.write_text("a line of it\n" * 1_000_003)
    for verb, flags in (("measure", ("--json",)), ("minimum", ("--json", "--confirm", "1"))):
        with lines.open() as file:
            done = run(verb, tmp_path, *flags, stdin=file)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        needs.append(answer["demand_bytes"] if verb == "measure" else max(answer["needs_bytes"]))
    assert all(need > 55 * MIB for need in needs)
    assert needs[0] == pytest.approx(needs[1], rel=0.05)


@pytest.mark.parametrize("verb", ["measure", "minimum", "advise"])
def test_a_pipe_with_data_is_refused_with_what_to_type(verb: str, tmp_path: Path):
    """A second trial would read nothing; the message has a line that works."""
    flags = ("--memory", "90M") if verb == "advise" else ()
    done = run(verb, tmp_path, *flags, input="a line\n")
    assert done.returncode == 2, done.stderr
    assert "its standard input is a pipe" in done.stderr
    typed = " ".join(["edgebench", verb, *flags, "--", "sh -c 'PRODUCER | "])
    assert typed in done.stderr


def test_an_empty_pipe_is_no_input(tmp_path: Path):
    done = run("measure", tmp_path, "--json", input="")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcome"] == "ok"
