"""Bytes that come from storage in a steady round, counted by the kernel.

``python benchmarks/steady_bytes.py SWEEP…`` (seconds) reads finished sweeps and writes
``results/steady_bytes.json``, with which ``validation.py`` compares what is simulated. Sweeps that
were read before stay in it. A record has each round's bytes. Those of earlier versions don't: there
samples and events tell, of what the kernel counts for a control group, from swap and from files
together; where it doesn't, of the pages that came back (refaults).
"""

from __future__ import annotations

import json
import math
import mmap
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from report import RESULTS, write

from edgebench.errors import ResultsError
from edgebench.results.miss_curve import steady_counts
from edgebench.results.results import load
from edgebench.results.rounds import STEADY, round_stages
from edgebench.spans import finished_spans

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.records import TrialRecord
    from edgebench.results.results import Results
    from edgebench.results.sweep_reader import Sweep

#: Below this a round's bytes show nothing.
MANY_BYTES = 20 << 20
_READ, _REFAULTS = "io_read_bytes", ("refault_anon", "refault_file")


def main() -> None:
    """Read, and write."""
    kept = RESULTS / "steady_bytes.json"
    rows = json.loads(kept.read_text())["data"] if kept.exists() else []
    for path in map(Path, sys.argv[1:]):
        results = load(path)
        names = {sweep.name for sweep in results.sweeps}
        rows = [row for row in rows if row["sweep"] not in names]
        rows += [row for sweep in results.sweeps for row in counted(results, sweep)]
    says = "MiB read in a steady round beyond those of rounds without a limit, where more than 20."
    header = ("sweep", "network", "schedule", "loader", "limit, MiB", "rounds", "MiB", "repeats")
    write("steady_bytes", says, header, list(table(rows)), rows)


def counted(results: Results, sweep: Sweep) -> Iterator[dict[str, Any]]:
    """Each trial's steady rounds; each visit of a walk is one."""
    for record in sweep.records:
        read = [float(one.in_bytes) for one in steady_counts(record) if one.in_bytes is not None]
        if record.outcome == "ok" and (read := read or rounds_read(results, sweep, record)):
            yield {
                "sweep": sweep.name,
                "trial": record.trial,
                "network": "+".join(record.settings["networks"]),
                "schedule": record.settings["schedule"],
                "loader": record.settings["loader"],
                "limit_bytes": record.limit_bytes,
                "bytes": [round(size) for size in read],
            }


def rounds_read(results: Results, sweep: Sweep, record: TrialRecord) -> list[float]:
    """Bytes of each steady round; none if the trial's samples don't tell."""
    steady = {number for number, stage in round_stages(record).items() if stage == STEADY}
    # A walk is sampled as one trial, whose visits have events of their own.
    sampled = record.walk.walk if record.walk else record.trial
    try:
        samples = results.stat(sampled, sweep.name)
        spans = finished_spans(sweep.events(record.trial))
    except ResultsError:
        return []
    total = counter(samples)
    if total is None:
        return []
    rounds = [span for span in spans if span.phase == "round" and span.round in steady]
    times, ends = samples["t_ns"].to_numpy(), [(span.start_ns, span.end_ns) for span in rounds]
    return [float(np.diff(np.interp(both, times, total))[0]) for both in ends]


def counter(samples: pd.DataFrame) -> np.ndarray | None:
    """What was read until each sample, in bytes."""
    if _READ in samples and samples[_READ].notna().all():
        return samples[_READ].to_numpy()
    if {*_REFAULTS} <= {*samples.columns} and samples[[*_REFAULTS]].notna().all(axis=None):
        return samples[[*_REFAULTS]].sum(axis=1).to_numpy() * mmap.PAGESIZE
    return None


def table(rows: list[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    """The rows to print, one a limit."""
    groups: dict[tuple[str, ...], dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        key = tuple(row[name] for name in ("sweep", "network", "schedule", "loader"))
        groups[key][row["limit_bytes"] or math.inf] += row["bytes"]
    for key, by_limit in groups.items():
        free = by_limit.pop(math.inf, None)
        for limit, read in sorted(by_limit.items()) if free else ():
            beyond = [size - statistics.median(free) for size in read]
            middle = statistics.median(beyond)
            if middle > MANY_BYTES:
                off = statistics.median(abs(size / middle - 1) for size in beyond)
                size = f"{limit / 2**20:.1f}", len(read), f"{middle / 2**20:.1f}"
                yield *key, *size, f"±{100 * off:.1f} %"


if __name__ == "__main__":
    main()
