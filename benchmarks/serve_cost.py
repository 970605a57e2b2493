"""What the dashboard costs, part by part: each writes its own rows and leaves the others be.

``python serve_cost.py pairs [PAIRS]``: a trial's time with somebody watching ÷ without.
``paint``: first paint, and how old what the page shows is. ``samples [ROWS]``: a trial of so many
samples drawn, and how long the page is stuck for it. ``connects [COUNT]`` and ``reconnecting
[MINUTES]``: the server's memory. ``pairs`` and ``paint`` want the machine to themselves.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import report
from pairing import interval
from serve_bench import MIB, server, stream

#: Connects after which the server's memory is taken as its own.
WARM = 500
#: Seconds between two clients of `reconnecting`, and how long each stays.
PAUSE_S, STAY_S = 4.0, 1.0
SAYS = (
    "Watched ÷ not: halves of 5 s within a trial of resnet18 at 1 kHz, in pairs, their order drawn "
    "at random; for the other half server and watcher are stopped by a signal."
)
Row = list[str]


def pairs(count: int) -> tuple[list[Row], Any]:
    """The workload's time while the stream is read, and while Chromium shows it."""
    import serve_pairs

    told = serve_pairs.measure(count)
    rows = []
    for name, seen in told.items():
        low, high = interval(seen["ratios"])
        words = f"{statistics.median(seen['ratios']):.4f} (95 % interval {low:.4f} to {high:.4f})"
        rows.append([f"workload's time, watched ÷ not, {count} pairs: {name}", words, "≤ 1.01"])
    most = max(seen["server_mib"] for seen in told.values())
    rows.append(["server's memory while it shows a trial", f"{most:.1f} MiB", "≤ 45 MB"])
    return rows, told


def paint(loads: int) -> tuple[list[Row], Any]:
    """First paint, and how old the newest sample on the page is."""
    import serve_page

    seen = serve_page.paint(loads)
    paints, ages = seen["first_paint_s"], seen["age_s"]
    age = f"median {ages['median']:.2f} s, 95 % {ages['p95']:.2f} s, at most {ages['most']:.2f} s"
    first = f"median {paints['median']:.2f} s, at most {paints['most']:.2f} s"
    return [
        [f"first paint, {loads} loads", first, "≤ 1 s"],
        ["newest sample on the page, how old at any moment", age, "≤ 1 s"],
    ], seen


def samples(rows: int) -> tuple[list[Row], Any]:
    """A trial of so many samples, drawn in History."""
    import serve_page

    seen = serve_page.samples(rows)
    stuck = f"{seen['stuck_ms']:.0f} ms at most"
    return [
        [f"{rows:,} samples: from the click until drawn", f"{seen['drawn_s']:.2f} s", ""],
        [f"{rows:,} samples: the page can't answer", stuck, "no freezing"],
        [f"{rows:,} samples: sent to the page", f"{seen['sent_bytes'] / 1024:.0f} KiB", ""],
    ], seen


def connects(count: int) -> tuple[list[Row], Any]:
    """The server's memory after the first connects, and after so many."""
    with tempfile.TemporaryDirectory() as root, server(Path(root)) as (process, port):
        early = 0.0
        for number in range(count):
            with stream(port):
                pass
            if number + 1 == min(WARM, count):
                early = process.memory_info().rss / MIB
        late = process.memory_info().rss / MIB
    words = f"{early:.1f} → {late:.1f} MiB"
    row = [f"server's memory, {WARM} → {count:,} connects", words, "no growth"]
    return [row], {"early_mib": early, "late_mib": late, "connects": count}


def reconnecting(minutes: int) -> tuple[list[Row], Any]:
    """The server's largest memory while clients come and go so long."""
    sizes = []
    with tempfile.TemporaryDirectory() as root, server(Path(root)) as (process, port):
        began, ends = time.process_time(), time.monotonic() + minutes * 60
        while time.monotonic() < ends:
            with stream(port):
                time.sleep(STAY_S)
            sizes.append(process.memory_info().rss / MIB)
            time.sleep(PAUSE_S - STAY_S)
        cpu_s = sum(process.cpu_times()[:2])
    words = f"{max(sizes):.1f} MiB at most, {sizes[-1]:.1f} at the end"
    data = {"largest_mib": max(sizes), "sizes_mib": sizes[::30], "clients": len(sizes)}
    data |= {"server_cpu_s": cpu_s, "clients_cpu_s": time.process_time() - began}
    row = [f"server's memory, {minutes} min, {len(sizes):,} clients that come and go", words]
    return [[*row, "≤ 45 MB"]], data


#: Part → how it is measured, and with how many unless told otherwise.
PARTS: dict[str, tuple[Callable[[int], tuple[list[Row], Any]], int]] = {
    "pairs": (pairs, 20),
    "paint": (paint, 10),
    "samples": (samples, 100_000),
    "connects": (connects, 10_000),
    "reconnecting": (reconnecting, 60),
}


def write(part: str, rows: list[Row], data: Any) -> None:
    """Write a part's rows beside those of the parts that were measured before."""
    path = report.RESULTS / "serve_cost.json"
    kept = json.loads(path.read_text())["data"] if path.exists() else {}
    kept[part] = {"rows": rows, "measured": data}
    told = {name: kept[name] for name in PARTS if name in kept}
    lines = [row for one in told.values() for row in one["rows"]]
    report.write("serve_cost", SAYS, ("what", "measured", "aim"), lines, told)


if __name__ == "__main__":
    measure, usual = PARTS[sys.argv[1]]
    write(sys.argv[1], *measure(int(sys.argv[2]) if len(sys.argv) > 2 else usual))
