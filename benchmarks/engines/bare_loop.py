"""Does the harness disturb an engine? An execution in it ÷ in a bare loop, unlimited, in pairs.

    python -m benchmarks.engines.bare_loop [PAIRS] [NETWORK]

A bare loop (``bare.py``) loads the same file and executes it as often, without edgebench. The order
within each pair is drawn at random.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks import report
from benchmarks.engines.same_network import ENGINES, bare, differences, make_files
from benchmarks.engines.sweeps import Setting, sweep
from benchmarks.pairing import in_pairs, interval

#: Executions after the first: their mean is what is compared.
WARM = 50


def main(pairs: int, network: str) -> None:
    """Measure that many pairs for each engine."""
    with tempfile.TemporaryDirectory(prefix="engines-") as place:
        folder = Path(place)
        make_files(folder, [network])
        differences(folder, [network])
        seconds = {engine: _pairs(folder, engine, network, pairs) for engine in ENGINES}
    rows, data = [], {}
    for engine, took in seconds.items():
        ratios = [harness / alone for harness, alone in took]
        low, high = interval(ratios)
        median = statistics.median(ratios)
        alone_ms = 1000 * statistics.median(alone for _, alone in took)
        rows.append([engine, f"{alone_ms:.2f} ms", f"{median:.4f}", f"{low:.4f} to {high:.4f}"])
        data[engine] = {"seconds": took, "ratios": ratios}
    says = f"{network}, one execution in the harness ÷ in a bare loop, unlimited; {pairs} pairs."
    header = ["engine", "bare", "median ratio", "95 % interval of the median"]
    report.write("engines_bare_loop", says, header, rows, {"network": network, "engines": data})


def _pairs(folder: Path, engine: str, network: str, pairs: int) -> list[tuple[float, float]]:
    """Seconds of an execution in the harness and in a bare loop."""

    def seconds(watched: bool) -> float:
        if not watched:
            return bare(engine, folder, network, WARM)["execute"]
        (trial,) = sweep(folder, [engine], [network], Setting(WARM), seed=1)
        if trial.outcome != "ok":
            raise SystemExit(f"{network} in {engine}: {trial.outcome}")
        return trial.seconds["execute"]

    return in_pairs(seconds, pairs, seed=2)


if __name__ == "__main__":
    given = sys.argv[1:]
    main(int(given[0]) if given else 20, given[1] if len(given) > 1 else "mobilenet_v2")
