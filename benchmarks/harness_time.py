"""The harness's own time a trial: all but the workload's process."""

from __future__ import annotations

import sys

import report

from edgebench.records import LimitSetting
from edgebench.run.command import measure_command


def main(trials: int) -> None:
    """Measure that many trials of a command that does nothing."""
    seconds = [measure_command(["true"], LimitSetting()).harness_s for _ in range(trials)]
    known = [time_s for time_s in seconds if time_s is not None]
    spread = {key: f"{1000 * value:.1f} ms" for key, value in report.spread(known).items()}
    says = "The harness's own time a trial: cgroup, sampler, files, removal."
    row = [len(known), spread["median"], f"{spread['p05']} to {spread['p95']}"]
    header = ["trials", "median", "5 % to 95 %"]
    report.write("harness_time", says, header, [row], {"harness_s": known})


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
