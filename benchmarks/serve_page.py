"""How quick the page is: its first paint, the age of what it shows, a large trial drawn."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from serve_bench import bench, chromium, server

from edgebench.results.live_file import FAST, read_live_trial

#: Long tasks (50 ms and more) are told by the browser; shorter ones nobody feels.
_WATCH_TASKS = """
window.tasks = [];
new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((e) => e.duration)))
  .observe({type: 'longtask'});
"""
_PAINTED = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
_SENT = """
return performance.getEntriesByType('resource').filter((e) => e.name.includes('/api/trial?'))
  .reduce((sum, e) => sum + e.encodedBodySize, 0)
"""


def paint(loads: int) -> dict[str, dict[str, float]]:
    """Seconds to the first paint, and the age of the newest sample that is drawn, at any moment."""
    with bench() as made, server(made.root) as (_, port), chromium(port) as driver:
        paints = []
        for _ in range(loads):
            driver.get("about:blank")
            driver.get(f"http://127.0.0.1:{port}/")
            paints.append(_wait(driver, _PAINTED) / 1000)
        trial = threading.Thread(target=made.trial, args=("page", made.rounds_in(30)))
        trial.start()
        ages = _ages(driver, made.folder.path, trial)
        trial.join()
    return {"first_paint_s": _spread(paints), "age_s": _spread(ages)}


def _ages(driver: Any, sweep: Path, trial: threading.Thread) -> list[float]:
    """Seconds, many times while the trial lasts, once it is seen at all."""
    ages = []
    while trial.is_alive():
        drawn = driver.execute_script("return document.body.dataset.drawnUntil")
        post = read_live_trial(sweep)
        if drawn and post and post.file(FAST).exists():
            ages.append((time.monotonic_ns() - post.started_ns) / 1e9 - float(drawn))
        time.sleep(0.05)
    return ages


def samples(rows: int) -> dict[str, float]:
    """A real trial's samples, told again and again up to so many rows, chosen and drawn."""
    with bench() as made:
        made.trial("large", 20)
        _lengthen(made.folder.samples_path("large"), rows)
        with server(made.root) as (_, port), chromium(port, "history") as driver:
            for box in ("#sweeps input", "#trials input"):
                _wait(driver, f"return document.querySelector('{box}')").click()
            driver.execute_script(_WATCH_TASKS)
            began = time.monotonic()
            driver.find_element("id", "compare").click()
            said = "return document.querySelector('#status').textContent.includes('drawn from')"
            _wait(driver, said)
            drawn_s = time.monotonic() - began
            time.sleep(1)
            tasks = driver.execute_script("return window.tasks")
            sent = driver.execute_script(_SENT)
    return {
        "drawn_s": drawn_s,
        "stuck_ms": max(tasks, default=50),
        "sent_bytes": sent,
        "rows": rows,
    }


def _lengthen(path: Path, rows: int) -> None:
    with np.load(path) as file:
        tables = {name: file[name] for name in file.files}
    fast = np.resize(tables["fast"], rows)
    fast["t_ns"] = fast["t_ns"][0] + np.arange(rows) * 1_000_000
    np.savez_compressed(path, **{**tables, "fast": fast})


def _spread(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    cut = ordered[round(0.95 * (len(ordered) - 1))]
    return {"median": statistics.median(ordered), "p95": cut, "most": ordered[-1]}


def _wait(driver: Any, script: str) -> Any:
    ends = time.monotonic() + 60
    while not (found := driver.execute_script(script)):
        assert time.monotonic() < ends, script
        time.sleep(0.02)
    return found
