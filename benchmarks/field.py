"""What edgebench says of small programs, beside what is right.

    python benchmarks/field.py [NAME ...]

Most programs are public reports, rebuilt. What each uses, and the least limit at which it finishes
no more than 1.1 times as slow, was found by hand in a bare control group. It writes
``results/field.md`` and ends with 1 if an answer is wrong.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import report

MIB = 1 << 20


class Case(NamedTuple):
    """What is typed after ``edgebench``, and what is right.

    ``needs`` and ``give`` are in MiB; None: not told, or it depends on storage. ``says`` is a
    pattern that the answer holds.
    """

    name: str
    words: str
    needs: float | None = None
    give: float | None = None
    says: str = ""


#: Each word is a step: f fills so many MiB, h gives the last back, l frees lazily, s is shared,
#: t is in a memfd, c in a child; g touches a byte of each huge page.
_STEPS = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int c, char **v) {
  char *last = 0; size_t size = 0;
  for (int i = 1; i < c; i++) {
    size_t n = (size_t)atoi(v[i] + 1) << 20;
    int fd = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    if (*v[i] == 'h') { munmap(last, size); continue; }
    if (*v[i] == 's') flags = MAP_SHARED | MAP_ANONYMOUS;
    if (*v[i] == 't') { fd = memfd_create("t", 0); if (ftruncate(fd, n)) return 1; }
    if (*v[i] == 't') flags = MAP_SHARED;
    if (*v[i] == 'c' && fork()) continue;
    if (*v[i] == 'g') {
      if (posix_memalign((void **)&last, 2 << 20, n)) return 1;
      madvise(last, n, MADV_HUGEPAGE);
      for (size_t at = 0; at < n; at += 2 << 20) last[at] = 1;
      continue;
    }
    size = *v[i] == 'l' ? 1 << 20 : n;
    for (size_t at = 0; at < n; at += size) {
      last = mmap(0, size, PROT_READ | PROT_WRITE, flags, fd, 0); memset(last, 1, size);
      if (*v[i] == 'l') madvise(last, size, MADV_FREE);
    }
    if (*v[i] == 'c') { usleep(400000); return 0; }
  }
  usleep(200000); while (wait(0) > 0); return 0;
}
"""
#: Written into the folder of each case, beside files of random numbers: ``61.bin`` has 61 MiB.
PROGRAMS = {
    "again.py": """
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
for epoch in range(int(sys.argv[2])):
    for at in range(0, os.fstat(file).st_size, 1 << 16): os.pread(file, 1 << 16, at)
""",
    "cached.sh": """
[ -e /dev/shm/edgebench-field ] || head -c 200M /dev/zero >/dev/shm/edgebench-field
python3 mapped.py /dev/shm/edgebench-field 1
""",
    "docker": """#!/bin/sh
cd /sys/fs/cgroup; mkdir -p memory/field-daemon cpuacct/field-daemon
sh -c 'echo $$ | tee */field-daemon/cgroup.procs >/dev/null
exec python3 -c "import time; b = bytearray(300 << 20); time.sleep(3)"'
""",
    "grows.py": """
import sys, time
kept = []
while True:
    kept.append(bytearray(b"x" * (1 << 20))); time.sleep(0.02); del kept[: -int(sys.argv[1])]
""",
    "locked.py": """
import ctypes, time
libc = ctypes.CDLL(None, use_errno=True)
b = bytearray(b"1" * (200 << 20)); a = (ctypes.c_char * len(b)).from_buffer(b)
libc.mlock(a, len(b)); time.sleep(0.5)
""",
    "mapped.py": """
import mmap, sys, time
f = open(sys.argv[1], "rb"); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
for token in range(int(sys.argv[2])):
    time.sleep(0.2); s = sum(m[i] for i in range(0, len(m), 4096))
""",
    "outlives.sh": """
setsid python3 -c 'import time; time.sleep(0.5); b = bytearray(300 << 20); time.sleep(2)' \\
    >/dev/null 2>&1 </dev/null &
""",
    "random.py": """
import os, time
kept = [os.urandom(1 << 20) for _ in range(400)]
for _ in range(3): sum(sum(one[::4096]) for one in kept); time.sleep(0.1)
""",
    "refused.py": """
import resource
resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20)); bytearray(400 << 20)
""",
    "shared.py": """
from multiprocessing import shared_memory
import time
s = shared_memory.SharedMemory(create=True, size=200 << 20)
for i in range(0, s.size, 4096): s.buf[i] = 1
time.sleep(0.5); s.close(); s.unlink()
""",
}
#: What programs leave outside their folder.
LEFT = (
    "/dev/shm/edgebench-field",
    *(f"/sys/fs/cgroup/{kind}/field-daemon" for kind in ("memory", "cpuacct")),
)
CASES = (
    *(
        Case(steps, f"minimum -- ./steps {steps}", needs, give)
        for steps, needs, give in (
            ("f7", 7.5, 7.6),
            ("f23", 23.5, 24),
            ("f83", 83.5, 84),
            ("f151", 151.5, 152),
            ("f412", 412.6, 413),
            ("f90 h f30", 90.5, 91),
            ("f40 f60 h f35", 100.4, 101),
            ("f200 h f10", 200.5, 201),
            ("s71", 71.5, 72),
            ("s133", 133.6, 134),
            ("t45", 45.5, 46),
            ("t30 f60", 90.6, 91),
            ("c20 c20 c20", 60.8, 61),
            ("c31 f50", 81.7, 82),
            ("l123 f37", 160.5, 38),
            ("f37 l123", 160.5, 39),
            ("f64 l200", 264.8, 66),
            ("g194", 194.8, 2),
        )
    ),
    Case("bytes", "minimum -- python3 -S -c x=bytearray(100<<20)", 103, 103),
    Case("floats", "minimum -- python3 -S -c x=[i*1.5for(i)in(range(1000000))]", 41.3, 42),
    Case("read once", "minimum -- python3 -S again.py 61.bin 1", 4),
    Case("read again", "minimum -- python3 -S again.py 61.bin 4", 65),
    # pytorch/pytorch#5902
    Case("shared memory", "minimum -- python3 shared.py", 218, 219),
    # microsoft/onnxruntime-genai#1272
    Case("mapped file", "measure -- python3 mapped.py 200.bin 2", 208, says="200 MiB of it files"),
    # mmap(2)
    Case("mapped at the end", "measure -- python3 mapped.py 200.bin 1", 208),
    # kubernetes/kubernetes#43916
    Case("file only read", "minimum -- python3 again.py 200.bin 1", 8.5),
    # ggml-org/llama.cpp#5207
    Case(
        "slow without swap",
        "minimum --storage read=90MB/s --file 200.bin -- python3 mapped.py 200.bin 4",
        *(208, 208, r"[2-9]\.\dx below"),
    ),
    # keras-team/keras#13118
    Case(
        "grows",
        "minimum --for 6s -- python3 grows.py 9999",
        says=r"held [\d to]+ MiB   \d trials(.|\n)*still grew by",
    ),
    # tensorflow/tensorflow#33009
    Case("replaces", "minimum --for 6s --within 300M -- python3 grows.py 100", 110, 300),
    # kubernetes/kubernetes#78973
    Case("outlives its command", "minimum -- sh outlives.sh", says=r"outlived it.*--for"),
    # sosy-lab/benchexec#286
    Case("left in /dev/shm", "minimum -- sh cached.sh", 208, 209, "200 MiB of shared memory stay"),
    # quarkusio/quarkus#16110
    Case("client", "minimum -- ./docker run", 1, says="does next to nothing itself"),
    # kubernetes/kubernetes#104454
    Case("killed by others", "minimum -- sh -c 'kill -9 $$'", says="journalctl"),
    Case("illegal", "minimum -- sh -c 'kill -ILL $$'", says="Illegal instruction"),
    # getrlimit(2)
    Case("refused", "minimum -- python3 refused.py", says="MemoryError"),
    # mlock(2)
    Case("locked", "measure --memory 150M --swap 512M -- python3 locked.py", says="mlock"),
    # valdivj/jetson-nano-yolov2-darkflow#1
    Case(
        "zram",
        "measure --board raspberry-pi-zero-2w -- python3 random.py",
        says=r"killed for memory(.|\n)*zram takes",
    ),
    # docs.ultralytics.com/modes/export
    Case("gguf", "minimum 1.gguf", says="measure the program that loads it"),
)


def answer(case: Case) -> str:
    """What edgebench says of a case, stdout and stderr."""
    words = shlex.split(case.words)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in PROGRAMS.items():
            Path(folder, name).write_text(text.lstrip())
            Path(folder, name).chmod(0o755)
        Path(folder, "steps.c").write_text(_STEPS)
        subprocess.run(["gcc", "-O1", "-o", "steps", "steps.c"], cwd=folder, check=True)
        for name in {word for word in words if re.fullmatch(r"\d+\.(bin|gguf)", word)}:
            Path(folder, name).write_bytes(os.urandom(int(name.partition(".")[0]) * MIB))
        command = [sys.executable, "-m", "edgebench", *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    for left in map(Path, LEFT):
        if left.exists():
            # A control group is removed as one folder.
            left.rmdir() if left.is_dir() else left.unlink()
    return done.stdout + done.stderr


def size_after(word: str, said: str) -> float | None:
    """The size in MiB after a word; of a range its end; None: there is none."""
    found = re.search(rf"\b(?:{word}) (?:[\d.]+ to )?([\d.]+) ([KMG])iB", said)
    return found and float(found[1]) * 1024 ** ("KMG".index(found[2]) - 1)


def is_close(said: float | None, right: float | None) -> bool:
    """Whether it is right to 2 % or 2 MiB."""
    return right is None or (said is not None and abs(said - right) <= max(2, 0.02 * right))


def main(names: list[str]) -> int:
    """Run the cases; 1 if an answer is wrong."""
    rows = []
    for case in CASES:
        if names and case.name not in names:
            continue
        said = answer(case)
        needs, give = size_after("needs|uses", said), size_after("give", said)
        is_right = is_close(needs, case.needs) and is_close(give, case.give)
        is_right = is_right and re.search(case.says, said) is not None
        sizes = [
            ", ".join(f"{word} {size:g} MiB" for word, size in pairs if size)
            for pairs in (
                (("needs", needs), ("give", give)),
                (("needs", case.needs), ("give", case.give)),
            )
        ]
        right = "; ".join(filter(None, (sizes[1], case.says and f"`{case.says}`")))
        rows.append([case.name, sizes[0], right, "yes" if is_right else "no"])
        sys.stderr.write(" | ".join(rows[-1]) + "\n" + said * (not is_right))
    title = "What edgebench says of small programs, most of them public reports."
    report.write("field", title, ["case", "said", "right", ""], rows, rows)
    return int(any(row[3] == "no" for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
