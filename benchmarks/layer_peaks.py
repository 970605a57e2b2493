"""Made-up layers that hold X MiB for 2 ms: by how much each strategy's peak of the layer is off.

Real trials in a real cgroup. What a layer holds is X and, for the kernel, the page tables of it.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import report

sys.path.append(str(Path(__file__).parents[1] / "tests" / "measures"))
from made_layers import MIB, SIZES_MIB, Error, errors, made_trial

from edgebench.run.session import open_session

#: What the sampler is asked for; the first is the default.
INTERVALS_S = (0.001, 0.01, 0.1)


def worst(found: Sequence[Error], of: Callable[[Error], int | None]) -> str:
    """The largest error in MiB; a layer that was not seen at all is off by all it held."""
    off = [e.size_mib * MIB if of(e) is None else abs(of(e) or 0) for e in found]
    return f"{max(off) / MIB:.2f}"


def main(repeats: int) -> None:
    """Measure each size so many times, at each of the sampler's intervals."""
    found: dict[float, list[Error]] = {}
    with open_session() as session, tempfile.TemporaryDirectory() as folder:
        for interval_s in INTERVALS_S:
            setup = replace(session.setup, interval_s=interval_s, stat_interval_s=interval_s)
            where = Path(folder) / str(interval_s)
            timed = made_trial(setup, where, repeats=repeats)
            process = made_trial(setup, where, "process", repeats=repeats)
            found[interval_s] = errors(timed, process)
    first = found[INTERVALS_S[0]]
    rows = []
    for size in SIZES_MIB:
        own = [error for error in first if error.size_mib == size]
        row = [size, worst(own, lambda e: e.kernel), worst(own, lambda e: e.process)]
        for interval_s in INTERVALS_S:
            sampled = [error for error in found[interval_s] if error.size_mib == size]
            row.append(worst(sampled, lambda e: e.sampled))
        rows.append(row)
    says = (
        f"Layers that hold X MiB for 2 ms, {repeats} of each: the largest error of each "
        "strategy's peak of the layer, MiB."
    )
    intervals = [f"sampled each {interval_s * 1e3:g} ms" for interval_s in INTERVALS_S]
    header = ["X MiB", "kernel's mark, reset", "process's mark, reset", *intervals]
    data = {str(key): [asdict(error) for error in errors] for key, errors in found.items()}
    report.write("layer_peaks", says, header, rows, data)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
