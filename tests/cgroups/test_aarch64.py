"""A program's need, measured by the aarch64 kernels that boards run, emulated."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.long, pytest.mark.exclusive, pytest.mark.root]

REPOSITORY = Path(__file__).resolve().parents[2]
MIB = 1 << 20
HELD = 99 * MIB
PROGRAM = f"python3 -c 'b = bytearray({HELD})'"
COMMAND = f"""
python3 -m edgebench measure --json -- {PROGRAM} &&
python3 -m edgebench minimum --json -- {PROGRAM} &&
cat results/vm-linux-*/*/environment.json
"""
#: Beside what is held: the interpreter, and pages that kernel or C library take at once.
MOST = 10 * MIB


def run_in_machine(suite: str, options: list[str]) -> list[dict[str, Any]]:
    done = subprocess.run(
        ["scripts/vm", "--arch", "aarch64", *options, "sh", "-c", COMMAND],
        cwd=REPOSITORY,
        env=os.environ | {"EDGEBENCH_VM_SUITE": suite, "EDGEBENCH_VM_TIME_LIMIT_S": "270"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 125 and "set-up failed" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    decoder, text, documents = json.JSONDecoder(), done.stdout.strip(), []
    while text:
        document, end = decoder.raw_decode(text)
        documents.append(document)
        text = text[end:].lstrip()
    return documents


@pytest.mark.parametrize(
    ("suite", "options", "release", "page_bytes", "version"),
    [
        pytest.param("bookworm-backports", [], "6.12.", 4096, 2, id="6.12"),
        pytest.param("bookworm-backports", ["--pages", "16k"], "6.12.", 16384, 2, id="6.12-16k"),
        pytest.param("bookworm", ["--v1"], "6.1.", 4096, 1, id="6.1-v1"),
        pytest.param("bullseye", [], "5.10.", 4096, 2, id="5.10"),
    ],
)
def test_a_programs_need_on_an_aarch64_kernel(
    suite: str, options: list[str], release: str, page_bytes: int, version: int
) -> None:
    measured, found, environment = run_in_machine(suite, options)
    assert environment["kernel"].startswith(release)
    assert (environment["page_bytes"], environment["cgroup"]["version"]) == (page_bytes, version)
    assert measured["outcome"] == "ok"
    assert HELD < measured["demand_bytes"] <= HELD + MOST
    assert all(HELD < need <= HELD + MOST for need in found["needs_bytes"])
    assert HELD < found["give_bytes"] <= HELD + MOST
    killed = [row["limit_bytes"] for row in found["rows"] if row["ended"] == "killed"]
    assert killed
    assert max(killed) < found["give_bytes"]
