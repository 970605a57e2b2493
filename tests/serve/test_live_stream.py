"""The live stream: all that is known first, then what changes; any number of browsers."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from serving import Served, wait_for

from edgebench.serve.live import MOST_BROWSERS

#: Holds memory, later than the 50 ms of a first point, until a file is there, then fails.
HOLD = """
schema = 1
name = "hold"
repeats = 1
[workload]
kind = "command"
command = ["python3", "-I", "-S", "-c", '''
import os, time
time.sleep(0.3)
held = b"x" * 60_000_000
while not os.path.exists("GO-ON"): time.sleep(0.02)
raise SystemExit(3)''']
"""


@pytest.mark.process
def test_the_machine_is_told_each_second(fresh: Served):
    with fresh.stream() as events:
        kind, state = next(events)
        assert kind == "state"
        assert state["sweep"] is None
        assert state["system"][-1][1] == psutil.virtual_memory().total
        assert next(events)[0] == "system"


@pytest.mark.process
def test_too_many_browsers_are_turned_away(fresh: Served):
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(fresh.stream()) for _ in range(MOST_BROWSERS)]
        for events in streams:
            next(events)
        assert fresh.get("/api/live").status == 503
        assert next(streams[0])[0] == "system"
    wait_for(lambda: fresh.live.browsers == 0)


def follow(server: Served, until: Any) -> list[tuple[str, Any]]:
    seen = []
    with server.stream() as events:
        for event in events:
            seen.append(event)
            if until(*event):
                return seen
    return seen


@pytest.mark.own_cgroup
def test_a_sweep_from_a_terminal_is_seen_and_a_reload_loses_nothing(fresh: Served, tmp_path: Path):
    scenario, go_on = tmp_path / "hold.toml", tmp_path / "go-on"
    scenario.write_text(HOLD.replace("GO-ON", str(go_on)))
    words = [sys.executable, "-m", "edgebench", "run", str(scenario), "--results"]
    run = subprocess.Popen(
        [*words, str(fresh.root)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:

        def high(kind: str, data: Any) -> bool:
            return kind == "update" and (data["now"].get("usage_bytes") or 0) > 60_000_000

        first = follow(fresh, high)
        kind, state = follow(fresh, lambda *_: True)[0]
        assert kind == "state"
        points = state["trial"]["points"]
        assert points[0][2] < 60_000_000 < points[-1][2]
        assert state["sweep"]["running"]
        assert {"trial", "progress"} <= {name for name, _ in first}
        go_on.touch()
        last = follow(
            fresh,
            lambda k, d: k in ("progress", "state") and bool((d["sweep"] or {}).get("complete")),
        )
        assert last[-1][1]["sweep"]["outcomes"] == {"failed": 1}
        _, state = follow(fresh, lambda *_: True)[0]
        assert "exit" in state["sweep"]["reasons"][0]
    finally:
        go_on.touch()
        run.wait(120)
