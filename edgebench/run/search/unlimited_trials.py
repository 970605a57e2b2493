"""What is wrong with a workload that fails even without a limit, in words."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

from edgebench.errors import WorkloadError
from edgebench.records import TrialRecord
from edgebench.results.sweep_reader import Sweep, end_of_output, log_of
from edgebench.run.trial.output_rate import NO_LINE, UNBUFFERED
from edgebench.units import format_duration

#: The last lines of its output that are quoted.
_LINES = 5
#: Words of programs that looked for a terminal or for input.
_TERMINAL = re.compile(
    r"\b(stdin|tty|terminal|ioctl|EOFError|end of file|TERM\b|curses|interactive)", re.IGNORECASE
)
#: A program that ends so soon may have looked for input, even if it says nothing of it.
_AT_ONCE_S = 2.0


def check_unlimited(
    sweep: Sweep,
    name: str,
    unlimited: Sequence[TrialRecord],
    longer: str = "--timeout 10m; if it never ends: --for 20s",
) -> None:
    """Check that every unlimited trial finished: there is nothing to search for otherwise.

    ``longer`` is what gives a program more time.

    Raises:
        WorkloadError: one didn't; says how it ended, with its last lines.
    """
    failed = next((record for record in unlimited if record.outcome != "ok"), None)
    if failed is None:
        return
    where = str(log_of(sweep.path, failed.trial))
    if failed.outcome == "timeout":
        raise WorkloadError(
            f"{name} did not end within {format_duration(failed.wall_s or 0.0)}, without any limit",
            where=where,
            remedy=f"give it more time: {longer if _is_command(failed) else '--timeout 10m'}",
        )
    if not _is_command(failed):
        reason = f" ({failed.reason})" if failed.reason else ""
        raise WorkloadError(
            f"{name} did not finish with no limit: {failed.outcome}{reason}",
            where=where,
            remedy=f"see: edgebench show {sweep.path}",
        )
    output = end_of_output(sweep.path, failed.trial)
    lines = [f"  {line}" for line in output.splitlines() if line.strip()][-_LINES:]
    again = " when it is run again" if any(r.outcome == "ok" for r in unlimited) else ""
    end = f"exit code {failed.exit_code}"
    if failed.outcome == "oom-killed":
        end = "killed, since this machine's own memory ran out"
    elif failed.signal:
        end = failed.reason or f"signal {failed.signal}"
    what = [f"{name} fails without any limit{again}: {end}", *lines]
    raise WorkloadError("\n".join(what), where=where, remedy=_remedy(failed, unlimited, output))


def check_throughput(name: str, unlimited: Sequence[TrialRecord], wanted: float | None) -> None:
    """Check that a throughput which is asked for can be told.

    Raises:
        WorkloadError: the program's output doesn't tell it.
    """
    if wanted is None or any(record.throughput_per_s for record in unlimited):
        return
    why = next((r.missing.get("throughput_per_s") for r in unlimited), None) or NO_LINE
    remedy = "name the number in its output: --throughput-pattern"
    raise WorkloadError(
        f"the throughput of {name} is not known: {why}",
        remedy=UNBUFFERED if why == NO_LINE else remedy,
    )


def _is_command(record: TrialRecord) -> bool:
    return bool(record.settings["kind"] == "command")


def _remedy(failed: TrialRecord, unlimited: Sequence[TrialRecord], output: str) -> str:
    if any(record.outcome == "ok" for record in unlimited):
        return (
            "it finished once before: if it changes files, undo that before each trial with "
            "--reset COMMAND"
        )
    if failed.signal == signal.SIGKILL:
        return "edgebench set no limit: journalctl -k shows what the kernel killed, and why"
    if _TERMINAL.search(output) or (
        (failed.wall_s or 0.0) < _AT_ONCE_S and not output.strip() and not failed.signal
    ):
        return (
            "its input is no terminal, nor is its output: if it needs input, give it a file: "
            "edgebench minimum -- PROGRAM < FILE"
        )
    return "correct the command until it works by itself; its input is a file given with <, or none"
