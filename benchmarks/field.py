"""What is said of programs that public reports are about, beside what is right.

    python benchmarks/field.py [NAME ...]

Each case is a report rebuilt as a small program: its source, the command as a person would type it,
and words that a right answer holds (and words that a wrong one held). Right values were checked by
hand in a bare control group. Sizes of the programs of ``TRUTHS`` were found by bisection in one,
too: what each uses, and the least limit at which it finishes. ``sizes`` tries only these.
It writes ``results/field.md`` and ends with 1 if an answer is wrong.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import report

MIB = 1 << 20
EDGEBENCH = [sys.executable, "-m", "edgebench"]
K8S = "https://github.com/kubernetes/kubernetes/issues/"


@dataclass(frozen=True)
class Case:
    """One report.

    Attributes:
        name: how it is asked for.
        source: the address of the report.
        words: the command, after ``edgebench``.
        right: what is right, for a person.
        holds: patterns that the answer must hold; ``wrong`` ones that it must not.
        files: name → text of a program, or the size in bytes of a file of random numbers.
        removes: what the program leaves outside its folder.
    """

    name: str
    source: str
    words: Sequence[str]
    right: str
    holds: Sequence[str]
    wrong: Sequence[str] = ()
    files: dict[str, str | int] = field(default_factory=dict)
    removes: Sequence[str] = ()


_SHARED = """
from multiprocessing import shared_memory
import time
s = shared_memory.SharedMemory(create=True, size=200 << 20)
for i in range(0, s.size, 4096): s.buf[i] = 1
time.sleep(0.5); s.close(); s.unlink()
"""
_MAPPED = """
import mmap, sys, time
f = open(sys.argv[1], "rb"); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
for token in range(int(sys.argv[2])):
    s = sum(m[i] for i in range(0, len(m), 4096)); time.sleep(0.2)
"""
_READ = """
import sys
with open(sys.argv[1], "rb") as f:
    while f.read(1 << 20): pass
"""
_SERVER = """
import time
kept = []
while True: kept.append(bytearray(b"x" * (1 << 20))); time.sleep(0.02)
"""
_CACHE = """
import time
kept = [bytearray(b"x" * (1 << 20)) for _ in range(100)]
while True: kept.append(bytearray(b"x" * (1 << 20))); kept.pop(0); time.sleep(0.02)
"""
_OUTLIVES = (
    "setsid python3 -c 'import time; time.sleep(0.5); b = bytearray(300 << 20); time.sleep(2)' "
    ">/dev/null 2>&1 </dev/null &\necho done\n"
)
_CACHED = """
[ -e /dev/shm/edgebench-field ] || head -c 200M /dev/zero >/dev/shm/edgebench-field
python3 -c 'import mmap; f = open("/dev/shm/edgebench-field", "rb")
m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); sum(m[i] for i in range(0, len(m), 4096))'
"""
_LOCKED = """
import ctypes, time
libc = ctypes.CDLL(None, use_errno=True)
b = bytearray(b"1" * (200 << 20)); a = (ctypes.c_char * len(b)).from_buffer(b)
libc.mlock(a, len(b)); time.sleep(0.5)
"""
_AT_ONCE = """
import mmap, sys
f = open(sys.argv[1], "rb"); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
sum(m[i] for i in range(0, len(m), 4096))
"""
_REFUSED = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20)); bytearray(400 << 20)
"""
_RANDOM = """
import os, sys, time
kept = [os.urandom(1 << 20) for _ in range(int(sys.argv[1]))]
for _ in range(3): sum(sum(one[::4096]) for one in kept); time.sleep(0.1)
"""
CASES = (
    Case(
        "shared memory",
        "https://github.com/pytorch/pytorch/issues/5902",
        ("minimum", "--within", "300M", "--", "python3", "prog.py"),
        "needs about 218 MiB, once",
        (r"needs 21\d MiB",),
        files={"prog.py": _SHARED},
    ),
    Case(
        "mapped file in the page cache",
        "https://github.com/microsoft/onnxruntime-genai/issues/1272",
        ("minimum", "--", "python3", "prog.py", "weights.bin", "2"),
        "two parts: about 10 MiB that can't be dropped, and 200 MiB of files",
        (r"that can't be dropped and 200 MiB of\s+files",),
        files={"prog.py": _MAPPED, "weights.bin": 200 * MIB},
    ),
    Case(
        "file mapped just before the end",
        "https://man7.org/linux/man-pages/man2/mmap.2.html",
        ("minimum", "--", "python3", "prog.py", "weights.bin"),
        "200 MiB of files, though the program ends at once",
        (r"(?:19\d|20\d) MiB of\s+files",),
        files={"prog.py": _AT_ONCE, "weights.bin": 200 * MIB},
    ),
    Case(
        "file only read",
        K8S + "43916",
        ("minimum", "--", "python3", "prog.py", "weights.bin"),
        "the file is no need; no claim that less than all of it is slow",
        (r"needs (?:\d|1\d)(?:\.\d)? MiB;",),
        (r"times as long with less",),
        files={"prog.py": _READ, "weights.bin": 200 * MIB},
    ),
    Case(
        "slow without swap",
        "https://github.com/ggml-org/llama.cpp/issues/5207",
        (
            *("minimum", "--storage", "read=90MB/s", "--file", "weights.bin"),
            *("--", "python3", "prog.py", "weights.bin", "4"),
        ),
        "how slow it gets just below its need is said",
        (r"times as long (?:at|below)",),
        files={"prog.py": _MAPPED, "weights.bin": 200 * MIB},
    ),
    Case(
        "program that grows",
        "https://github.com/keras-team/keras/issues/13118",
        ("minimum", "--for", "6s", "--", "python3", "prog.py"),
        "still growing: no need can be told",
        (r"still\s+growing", r"no\s+need\s+can\s+be\s+told"),
        files={"prog.py": _SERVER},
    ),
    Case(
        "program that replaces",
        "https://github.com/tensorflow/tensorflow/issues/33009",
        ("minimum", "--for", "6s", "--within", "300M", "--", "python3", "prog.py"),
        "level: it needs about 112 MiB",
        (r"needs 1[01]\d MiB",),
        (r"still\s+growing",),
        files={"prog.py": _CACHE},
    ),
    Case(
        "process that outlives its command",
        K8S + "78973",
        ("minimum", "--", "sh", "prog.sh"),
        "a process outlived the command and was ended; --for waits for it",
        (r"outlived\s+the\s+command", r"--for"),
        files={"prog.sh": _OUTLIVES},
    ),
    Case(
        "file left in /dev/shm",
        "https://github.com/sosy-lab/benchexec/issues/286",
        ("minimum", "--", "sh", "prog.sh"),
        "fresh it needs about 208 MiB, and how much stays is said",
        (
            r"in\s+its\s+first\s+run|what\s+one\s+run\s+leaves\s+in\s+memory",
            r"MiB\s+of\s+shared\s+memory\s+stay\s+when\s+it\s+has\s+ended",
        ),
        (r"[34]\d\d\s+MiB", r"threads,\s+inputs\s+or\s+timing"),
        files={"prog.sh": _CACHED},
        removes=("/dev/shm/edgebench-field",),
    ),
    Case(
        "client of a daemon",
        "https://github.com/quarkusio/quarkus/pull/16110",
        ("minimum", "--", "./docker", "run", "image"),
        "a hint that its work may be done elsewhere, and an answer for the client itself",
        (r"start\s+work\s+elsewhere", r"needs [\d.]+ [KM]iB"),
        files={
            "docker": (
                "#!/bin/sh\ncd /sys/fs/cgroup; mkdir -p memory/field-daemon cpuacct/field-daemon\n"
                "sh -c 'echo $$ | tee */field-daemon/cgroup.procs >/dev/null; "
                'exec python3 -c "import time; b = bytearray(300 << 20); time.sleep(3)"\'\n'
            )
        },
        removes=("/sys/fs/cgroup/memory/field-daemon", "/sys/fs/cgroup/cpuacct/field-daemon"),
    ),
    Case(
        "killed without a limit",
        K8S + "104454",
        ("minimum", "--", "sh", "-c", "kill -9 $$"),
        "no limit of edgebench killed it: another program did, or it itself; how to see which",
        (r"not the limit of memory", r"journalctl"),
        (r"give\s+it\s+input",),
    ),
    Case(
        "memory refused",
        "https://man7.org/linux/man-pages/man2/getrlimit.2.html",
        ("minimum", "--", "python3", "prog.py"),
        "refused by a limit that is not edgebench's",
        (r"edgebench\s+set\s+no\s+limit", r"ulimit -v"),
        files={"prog.py": _REFUSED},
    ),
    Case(
        "illegal instruction",
        K8S + "104454",
        ("minimum", "--", "sh", "-c", "kill -ILL $$"),
        "built for another CPU",
        (r"lacks: it was built for another",),
    ),
    Case(
        "locked memory",
        "https://man7.org/linux/man-pages/man2/mlock.2.html",
        ("measure", "--memory", "150M", "--swap", "512M", "--", "python3", "prog.py"),
        "killed with swap free, since locked pages can't be swapped",
        (r"mlock|locked",),
        (r"observer-effect",),
        files={"prog.py": _LOCKED},
    ),
    Case(
        "zram on a board",
        "https://github.com/valdivj/jetson-nano-yolov2-darkflow/issues/1",
        ("measure", "--board", "raspberry-pi-zero-2w", "--", "python3", "prog.py", "400"),
        "killed: what does not compress does not fit",
        (r"killed",),
        files={"prog.py": _RANDOM},
    ),
    Case(
        "a format without a network",
        "https://docs.ultralytics.com/modes/export",
        ("minimum", "a.gguf"),
        "a .gguf is named for what it is, with the program that reads it",
        (r"llama",),
        files={"a.gguf": 4096},
    ),
)


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
_AGAIN = """
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
for epoch in range(int(sys.argv[2])):
    for at in range(0, os.fstat(file).st_size, 1 << 16): os.pread(file, 1 << 16, at)
"""
#: The command, what it needs in MiB, and the least limit to give it; None: that depends on storage.
TRUTHS: tuple[tuple[str, float, float | None], ...] = (
    ("./steps f7", 7.5, 7.6),
    ("./steps f23", 23.5, 24),
    ("./steps f83", 83.5, 84),
    ("./steps f151", 151.5, 152),
    ("./steps f412", 412.6, 413),
    ("./steps f90 h f30", 90.5, 91),
    ("./steps f40 f60 h f35", 100.4, 101),
    ("./steps f200 h f10", 200.5, 201),
    ("./steps s71", 71.5, 72),
    ("./steps s133", 133.6, 134),
    ("./steps t45", 45.5, 46),
    ("./steps t30 f60", 90.6, 91),
    ("./steps c20 c20 c20", 60.8, 61),
    ("./steps c31 f50", 81.7, 82),
    ("./steps l123 f37", 160.5, 38),
    ("./steps f37 l123", 160.5, 39),
    ("./steps f64 l200", 264.8, 66),
    ("./steps g194", 194.8, 2),
    ("python3 -S -c x=bytearray(100<<20)", 103, 103),
    ("python3 -S -c x=[i*1.5for(i)in(range(1000000))]", 41.3, 42),
    ("python3 -S again.py data.bin 1", 4, 4),
    ("python3 -S again.py data.bin 4", 65, None),
)


def sizes(command: str) -> tuple[float, float | None]:
    """What edgebench says that a command needs, and what to give it, in MiB."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "steps.c").write_text(_STEPS)
        subprocess.run(["gcc", "-O1", "-o", "steps", "steps.c"], cwd=folder, check=True)
        (folder / "again.py").write_text(_AGAIN)
        (folder / "data.bin").write_bytes(os.urandom(61 * MIB))
        words = [*EDGEBENCH, "minimum", "--json", "--", *command.split()]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        return 0.0, None
    found = json.loads(done.stdout)
    give = found["give_bytes"] and found["give_bytes"] / MIB
    return (found["needs_bytes"] or [0, 0])[1] / MIB, give


def is_close(said: float | None, truth: float | None) -> bool:
    """Whether it is the truth to 2 % or 2 MiB."""
    return truth is None or (said is not None and abs(said - truth) <= max(2, 0.02 * truth))


def answer(case: Case) -> str:
    """What edgebench says of a case, stdout and stderr."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name, content in case.files.items():
            path = folder / name
            if isinstance(content, str):
                path.write_text(content)
                path.chmod(0o755)
            else:
                path.write_bytes(os.urandom(content))
                path.read_bytes()  # It is in the page cache, as a file that was used is.
        try:
            done = subprocess.run(
                [*EDGEBENCH, *case.words], cwd=folder, capture_output=True, text=True, check=False
            )
        finally:
            for left in case.removes:
                _remove(Path(left))
    return done.stdout + done.stderr


def _remove(left: Path) -> None:
    if left.is_dir():
        # A control group is removed as one folder.
        left.rmdir()
    else:
        left.unlink(missing_ok=True)


def is_right(case: Case, said: str) -> bool:
    """Whether the answer holds what is right, and nothing that is wrong."""
    return all(re.search(one, said) for one in case.holds) and not any(
        re.search(one, said) for one in case.wrong
    )


def in_short(said: str) -> str:
    """The first paragraph that answers, or the message of a refusal, in a line."""
    lines = said.strip().splitlines() or [""]
    refused = (n for n, line in enumerate(lines) if line.startswith("edgebench: "))
    lines = lines[next(refused, 0) :]
    first = [lines[0], *takewhile(lambda line: line.startswith("  "), lines[1:])]
    return " ".join(" ".join(first).split())[:300].replace("|", "\\|")


def main(names: list[str]) -> int:
    """Run the cases; 1 if an answer is wrong."""
    if shutil.which("python3") is None:
        raise SystemExit("no python3")
    rows = []
    for case in CASES:
        if names and case.name not in names:
            continue
        said = answer(case)
        rows.append([case.name, in_short(said), case.right, is_right(case, said), said])
        sys.stderr.write(f"{'right' if rows[-1][3] else 'WRONG'}: {case.name}\n")
    for command, needs, give in TRUTHS if not names or names == ["sizes"] else ():
        said_needs, said_give = sizes(command)
        right = is_close(said_needs, needs) and is_close(said_give, give)
        truth = f"needs {needs} MiB, give {give or '?'}"
        said = f"needs {said_needs:.1f} MiB, give {said_give or '?'}"
        rows.append([command, said, truth, right, said])
        sys.stderr.write(f"{'right' if right else 'WRONG'}: {command}: {said}; {truth}\n")
    report.write(
        "field",
        "What edgebench says of programs that public reports are about.",
        ["case", "said", "right", ""],
        [[*row[:3], "yes" if row[3] else "no"] for row in rows],
        [row[:4] for row in rows],
    )
    return int(not all(row[3] for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
