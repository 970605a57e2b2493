"""When the page shows the newest answer: ``python benchmarks/serve_paint.py [LOADS [RESULTS]]``.

In Chromium, by its own performance entries: the first paint, and the mark that the page sets when
sentences and measured curve are in place. The first load of a server that has just started is told
apart from later ones, whose answer the server kept. On an idle machine; on the kept sweeps.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import report
from serve_bench import MIB, chromium, server

KEPT = Path(__file__).parents[1] / "results"
_ENTRY = "return performance.getEntriesByName(arguments[0])[0]?.startTime"
_PAINT, _SHOWN = "first-contentful-paint", "answer-shown"
_PATIENCE_S = 60.0


def measure(loads: int, results: Path) -> dict[str, Any]:
    """Seconds to both moments of each load, the first one apart, and the server's memory."""
    with server(results) as (process, port), chromium(port, "answer") as driver:
        first = _moments(driver)
        later = []
        for _ in range(loads):
            driver.get("about:blank")
            driver.get(f"http://127.0.0.1:{port}/")
            later.append(_moments(driver))
        size = process.memory_info().rss / MIB
    return {"first": first, "later": later, "server_mib": size}


def _moments(driver: Any) -> dict[str, float]:
    """Seconds after the start of the load, once both are known."""
    ends = time.monotonic() + _PATIENCE_S
    while True:
        found = {name: driver.execute_script(_ENTRY, name) for name in (_PAINT, _SHOWN)}
        if None not in found.values():
            return {name: value / 1000 for name, value in found.items()}
        assert time.monotonic() < ends, "the page shows no answer"
        time.sleep(0.02)


def _row(name: str, values: list[float]) -> list[str]:
    words = f"median {statistics.median(values):.2f} s, at most {max(values):.2f} s"
    return [name, words, "≤ 1 s"]


def main() -> None:
    """Measure and write the table."""
    loads = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    found = measure(loads, Path(sys.argv[2]) if len(sys.argv) > 2 else KEPT)
    rows = [
        _row(f"first paint, {loads} loads", [one[_PAINT] for one in found["later"]]),
        _row(f"the answer is shown, {loads} loads", [one[_SHOWN] for one in found["later"]]),
        _row("the answer is shown, as the server starts", [found["first"][_SHOWN]]),
        ["server's memory afterwards", f"{found['server_mib']:.1f} MiB", "≤ 45 MB"],
    ]
    said = "The page of kept sweeps in Chromium on the same machine, by its performance entries."
    report.write("serve_paint", said, ("what", "measured", "aim"), rows, found)


if __name__ == "__main__":
    main()
