"""What reading sensors costs: the thread's CPU time, and what it takes from a program beside it.

Boards that are not at hand are served as plain files (tests/trees): their drivers' own time, as
that of a chip behind I2C, is not in it. On a board ``here`` has it. The program beside it does a
fixed amount of work on one core, on which this process runs too, in pairs with and without sensors
read.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import report

from edgebench.measures.machine.sensors.places import find_sensors
from edgebench.measures.machine.system_files import SystemFiles
from edgebench.run.sensor_watch import SensorBank, SensorWatch

TREES = Path(__file__).parents[1] / "tests" / "trees"
#: A fraction of a second of work; it prints how long it took.
WORK = """
import time
began = time.monotonic()
sum(i * i for i in range(3_000_000))
print(time.monotonic() - began)
"""


def machines() -> dict[str, SystemFiles]:
    """The machine here, and each board's tree."""
    boards = {path.name: SystemFiles(path) for path in sorted(TREES.iterdir()) if path.is_dir()}
    return {"here": SystemFiles(), **boards}


def cost(bank: SensorBank, seconds: float) -> tuple[float, float]:
    """Share of one core, and readings in a second."""
    began = time.monotonic()
    with SensorWatch(bank) as watch:
        time.sleep(seconds)
    elapsed = time.monotonic() - began
    assert watch.readings
    return (watch.readings.cpu_s or 0.0) / elapsed, watch.readings.count / elapsed


def work_s(bank: SensorBank | None) -> float:
    """Seconds of the program, with sensors read beside it or not."""
    command = [sys.executable, "-I", "-S", "-c", WORK]
    with SensorWatch(bank):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def paired(bank: SensorBank, pairs: int) -> tuple[float, float, float]:
    """The median of time with ÷ time without on one core, and the quartiles."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    ratios = []
    try:
        for number in range(pairs):
            first, second = (bank, None) if number % 2 else (None, bank)
            times = {one is None: work_s(one) for one in (first, second)}
            ratios.append(times[False] / times[True])
    finally:
        os.sched_setaffinity(0, cores)
    low, _, high = statistics.quantiles(ratios, n=4)
    return statistics.median(ratios), low, high


def main(seconds: float, pairs: int) -> None:
    """Measure each in turn."""
    rows = []
    for name, machine in machines().items():
        found = find_sensors(machine)
        bank = SensorBank(found)
        share, rate = cost(bank, seconds) if found.sensors else (0.0, 0.0)
        rows.append([name, len(found.sensors), share, rate, *paired(bank, pairs)])
    shown = [
        [name, str(count), f"{share:.2%}", f"{rate:.1f}", f"{ratio:.4f} ({low:.4f} to {high:.4f})"]
        for name, count, share, rate, ratio, low, high in rows
    ]
    says = (
        f"Cost of reading sensors ten times a second over {seconds:.0f} s; and of {pairs} pairs of "
        "a program on one core the time with them ÷ without (median, quartiles)."
    )
    header = ["machine", "sensors", "share of one core", "readings a second", "time ÷ time without"]
    report.write("sensor_cost", says, header, shown, rows)


if __name__ == "__main__":
    words = sys.argv[1:]
    main(float(words[0]) if words else 10, int(words[1]) if len(words) > 1 else 20)
