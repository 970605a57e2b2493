"""Asking the same again shows the finished search, unless what it ran has changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.own_cgroup


def ask(folder: Path, *flags: str) -> tuple[str, str]:
    words = ["minimum", "--json", "--confirm", "0", *flags, "--", sys.executable, "prog.py"]
    done = subprocess.run(
        [sys.executable, "-m", "edgebench", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
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
