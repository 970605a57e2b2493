"""`edgebench watch --replay`: a kept sweep played back, and the recorder of terminal sessions."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from edgebench.results.results import latest
from edgebench.run.replay import SHIPPED

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "results" / "vm-2core-24g"
REPLAY = (sys.executable, "-m", "edgebench", "watch", "--replay")
SVG = "{http://www.w3.org/2000/svg}"


def test_the_shipped_sweep_is_the_kept_one():
    """What the package brings along is byte for byte what lies in results/, without samples."""
    shipped = latest(SHIPPED)
    names = {file.name for file in shipped.iterdir()}
    assert names == {
        *("complete.json", "environment.json", "resolved.json", "scenario.toml", "trials.jsonl")
    }
    for name in names:
        assert (shipped / name).read_bytes() == (KEPT / shipped.name / name).read_bytes()


@pytest.mark.process
def test_the_answer_is_that_of_the_sweep():
    """It ends with the sentences of the sweep, says that it is played back, and runs nothing."""
    command = [*REPLAY, "--seconds", "0.1s"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "alexnet needs 462.7 MiB" in done.stdout
    assert "playing back 45 trials measured on vm-2core-24g" in done.stderr
    assert "next: edgebench minimum" in done.stderr


@pytest.mark.skipif(shutil.which("python3") is None, reason="needs python3")
@pytest.mark.process
def test_a_recording_shows_what_the_terminal_showed(tmp_path: Path):
    """Text, colours and frames of a real session; no script; the last frame is what stays."""
    file = tmp_path / "made.svg"
    code = "import time; print('\\033[32mfirst\\033[0m <&>'); time.sleep(0.7); print('last')"
    command = [sys.executable, str(ROOT / "scripts" / "record.py"), "-o", str(file)]
    command += ["--shown", "demo & more", "--", sys.executable, "-c", code]
    subprocess.run(command, check=True, capture_output=True, text=True)
    root = ElementTree.fromstring(file.read_text())
    spans = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert {"first<&>", "last", "$demo & more"} <= set(spans)
    assert not list(root.iter(f"{SVG}script"))
    style = next(root.iter(f"{SVG}style")).text or ""
    assert "prefers-reduced-motion" in style
    assert len(re.findall(r"%\{transform", style)) >= 7
