"""What the live block costs: its share of one core, and what a trial takes longer under it."""

from __future__ import annotations

import os
import pty
import resource
import statistics
import sys
import threading
import time
from pathlib import Path

import report

from edgebench.cli.progress import LiveProgress
from edgebench.records import LimitSetting, TrialRecord
from edgebench.run.command import measure_command
from edgebench.run.trial_record import TrialRequest

#: Busy on every core that torch would use, for some seconds.
_COMMAND = [sys.executable, "-c", "x = bytearray(200 << 20)\nfor _ in range(60): x.count(1)"]
_LIMITS = ("85%", "70%", "55%", "40%")
_SHARE_S = 20.0


def main(pairs: int) -> None:
    """The share of a core over some seconds, then trials with and without, alternating."""
    with_terminal()
    share, draw_s = core_share()
    ratios = []
    for number in range(pairs):
        order = (True, False) if number % 2 else (False, True)
        took = {shown: trial_s(shown) for shown in order}
        ratios.append(took[True] / took[False])
    spread = report.spread(ratios)
    rows = [
        ["share of one core", f"{share:.2%}", "1 %"],
        ["one drawing", f"{1000 * draw_s:.1f} ms", ""],
        [f"a trial's time with ÷ without ({pairs} pairs)", f"{spread['median']:.4f}", "1.01"],
    ]
    says = "The live block of a terminal while trials run."
    data = {"share": share, "draw_s": draw_s, "ratios": ratios}
    report.write("progress_cost", says, ["what", "measured", "aim: at most"], rows, data)


def with_terminal() -> None:
    """Make stderr a terminal whose other end is read and thrown away."""
    ours, theirs = pty.openpty()
    os.dup2(theirs, 2)
    os.environ["TERM"] = "xterm"
    threading.Thread(target=_drain, args=(ours,), daemon=True).start()


def _drain(descriptor: int) -> None:
    while os.read(descriptor, 1 << 16):
        pass


def shown_block() -> LiveProgress:
    """The block of four networks at four limits, all of them known."""
    progress = LiveProgress()
    progress.begin(Path("results"), 100, 0)
    for network in ("alexnet", "resnet18", "mobilenet_v2", "vgg16"):
        for n, label in enumerate(("max", *_LIMITS)):
            limits = LimitSetting(label, n * (100 << 20) or None)
            settings = {"kind": "inference", "networks": [network]}
            request = TrialRequest("0001", "p001", 0, 0, settings, limits)
            record = TrialRecord(
                **request.described(), outcome="ok", started_utc="", wall_s=1.0 + n
            )
            progress.trial(request)
            progress.finished(record)
            progress.trial(request)
    return progress


def core_share() -> tuple[float, float]:
    """CPU time that drawing takes per second of clock, and seconds of one drawing."""
    progress = shown_block()
    progress.start()
    progress.tick()
    before, began = _cpu_s(), time.monotonic()
    time.sleep(_SHARE_S)
    share = (_cpu_s() - before) / (time.monotonic() - began)
    draws = []
    for _ in range(50):
        began = time.monotonic()
        progress.tick()
        draws.append(time.monotonic() - began)
    progress.close()
    return share, statistics.median(draws)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def trial_s(shown: bool) -> float:
    """One trial's seconds, under the block or without it."""
    progress = shown_block()
    if shown:
        progress.start()
    record = measure_command(_COMMAND, LimitSetting())
    if shown:
        progress.close()
    assert record.wall_s is not None
    return record.wall_s


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
