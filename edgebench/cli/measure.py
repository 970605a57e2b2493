"""``edgebench measure``: one trial of any command."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgebench.boards.board import emulation_words
from edgebench.boards.storage import AS_IS, parse_storage
from edgebench.cli.options import (
    board_option,
    files_option,
    json_option,
    storage_option,
    swap_option,
    verbose_option,
    with_board,
)
from edgebench.cli.output import print_answer, print_fields, print_json, print_next, print_warnings
from edgebench.measures.machine.noise import trial_doubts
from edgebench.need import need_of
from edgebench.results.unmeasured import is_stopped, unmeasured
from edgebench.text import as_sentence
from edgebench.units import (
    format_duration,
    format_size,
    parse_duration,
    parse_size,
    parse_swap,
)
from edgebench.words.boards import trial_board_sentence
from edgebench.words.doubts import doubt_sentences
from edgebench.words.ends import cause_of_signal, remedy_for_end
from edgebench.words.measure import measure_sentence, not_held_sentences
from edgebench.words.need import can_be_evicted, warm_files_words
from edgebench.words.outcomes import reason_words
from edgebench.words.swap_ram import swap_ram_words
from edgebench.words.unmeasured import unmeasured_parts

if TYPE_CHECKING:
    from edgebench.records import LimitSetting, TrialRecord

#: A peak beyond so many times the need is explained.
_MUCH_MORE = 1.05
#: So many files are named.
_MOST = 4


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--memory", default="max", help="Limit, as 300M; max: no limit.")
@swap_option
@files_option
@storage_option
@board_option
@click.option("--cores", type=click.IntRange(min=1), help="Number of CPU cores it may use.")
@click.option(
    "--cpu-quota", type=click.FloatRange(min=0.01), help="CPU time it may use, in cores, as 1.5."
)
@click.option("--timeout", help="Kill it after this time, as 90s or 10m.")
@click.option(
    "--for", "stop_after", help="Stop a program that never ends, with all that it started, as 20s."
)
@click.option(
    "--interval", help="Sample always at this interval, as 1ms, even while memory doesn't change."
)
@click.option(
    "--stat-interval",
    help="Also read memory.stat under a limit, at this interval, as 10ms; that can prevent kills.",
)
@click.option(
    "--samples",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Store the samples in this .npz file.",
)
@verbose_option("the peaks of other strategies, and how it was sampled")
@json_option("the record")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def measure(
    context: click.Context,
    /,
    samples: Path | None,
    verbose: bool,
    as_json: bool,
    command: tuple[str, ...],
    **given: Any,
) -> None:
    """Run COMMAND once under the limits and measure its memory, swap, time and CPU.

    COMMAND runs in a fresh cgroup; its output goes to stderr, and its input is a file that you give
    with <, else /dev/null. The exit code is 0 if it could be
    measured, even if COMMAND failed or was killed at the limit; its own exit code is printed.
    """
    from edgebench.run.command import measure_command, own_input
    from edgebench.run.echo import echo_to

    timeout_s, interval_s, stat_interval_s, stop_after_s = (
        parse_duration(given[name]) if given[name] else None
        for name in ("timeout", "interval", "stat_interval", "stop_after")
    )
    record = measure_command(
        command,
        _limits(**with_board(context, given)),
        timeout_s=timeout_s,
        stop_after_s=stop_after_s,
        interval_s=interval_s,
        stat_interval_s=stat_interval_s,
        samples=samples,
        files=given["files"],
        stdin=own_input(["measure", *_limit_flags(given)], command),
        echo=echo_to(sys.stderr),
    )
    if samples:
        click.echo(f"samples: {samples}", err=True)
    if as_json:
        print_json(record.to_json())
        return
    failed = record.outcome == "failed"
    cause = cause_of_signal(record.signal) if failed else None
    parts = [*([cause] if cause else []), *unmeasured_parts(unmeasured([record]))]
    sized = trial_board_sentence(record)
    print_answer([measure_sentence(record), *map(as_sentence, parts), *([sized] if sized else [])])
    print_fields([*_rows(record), *(_more_rows(record) if verbose else ())])
    warm = warm_files_words(record)
    doubts = doubt_sentences(trial_doubts(record))
    print_warnings(
        (*doubts, *not_held_sentences(record), *([warm] if warm else [])),
        None if verbose else "--verbose",
    )
    if failed and (remedy := remedy_for_end(record.signal, record.reason or "")):
        click.echo(f"remedy: {remedy}", err=True)
    if warm and record.files and can_be_evicted(record.files):
        flags = [*_limit_flags(given), *(f"--file={one}" for one in record.files.paths[:_MOST])]
        print_next(f"edgebench measure {shlex.join([*flags, '--', *command])}")
    elif record.limit_bytes is None and record.peak_bytes:
        _print_next_step(record, command)


def _limit_flags(given: Mapping[str, Any]) -> list[str]:
    """What it was called with of memory and swap."""
    usual = {"memory": "max", "swap": "none", "board": None}
    return [f"--{name}={given[name]}" for name, value in usual.items() if given[name] != value]


def _print_next_step(record: TrialRecord, command: Sequence[str]) -> None:
    """What to type next."""
    found, typed = unmeasured([record]), shlex.join(command)
    if found.growth:
        print_next(f"edgebench minimum --soak 10m -- {typed}")
    elif found.processes:
        print_next(f"edgebench measure --for 20s -- {typed}")
    elif is_stopped(record):
        print_next(f"edgebench minimum --for {math.ceil(record.wall_s or 1)}s -- {typed}")
    else:
        print_next(f"edgebench minimum -- {typed}")


def _limits(
    memory: str,
    swap: str,
    storage: str,
    cores: int | None,
    cpu_quota: float | None,
    board: str | None,
    **_: Any,
) -> LimitSetting:
    from edgebench.records import LimitSetting

    kind, swap_bytes = parse_swap(swap)
    return LimitSetting(
        label=memory,
        memory_bytes=parse_size(memory),
        swap_kind=kind,
        swap_bytes=swap_bytes,
        cores=cores,
        cpu_quota=cpu_quota,
        storage=parse_storage(storage).label,
        board=board,
    )


def _with_files(record: TrialRecord) -> str:
    """Why the peak is more than the need, where it is."""
    need, peak = need_of(record), record.peak_bytes
    more = need is not None and peak is not None and peak > _MUCH_MORE * need.total_bytes
    return ", with the page cache" if more else ""


def _rows(record: TrialRecord) -> Iterator[tuple[str, str]]:
    reason = reason_words(record)
    yield "outcome", record.outcome + (f": {reason}" if reason else "")
    if record.exit_code is not None:
        yield "exit code", str(record.exit_code)
    if record.limits.board:
        yield "board", emulation_words(record.limits.board)
    peak = _or_reason(record, "peak_bytes", format_size)
    yield f"peak ({record.peak_source}'s)", peak + _with_files(record)
    yield "swap peak", _or_reason(record, "swap_peak_bytes", format_size)
    if record.swap_ram:
        yield record.swap_ram.kind, swap_ram_words(record)
    if storage := _storage(record):
        yield "storage", storage
    yield "CPU time", _or_reason(record, "cpu_s", format_duration)
    yield "major faults", _or_reason(record, "major_faults", str)
    if record.watched is not None and record.watched.flushes and record.limit_bytes is not None:
        yield "doubt", "memory.stat was read while it ran, which can prevent a kill"


def _more_rows(record: TrialRecord) -> Iterator[tuple[str, str]]:
    sampler = record.sampler
    yield "peak (sampled)", _or_reason(record, "sampled_peak_bytes", format_size)
    yield "peak (GNU time's)", _or_reason(record, "gnu_time_maxrss_bytes", format_size)
    if sampler and sampler.achieved_s and sampler.largest_gap_s:
        each, gap = format_duration(sampler.achieved_s), format_duration(sampler.largest_gap_s)
        slows_down = record.watched and record.watched.quiet_interval_s
        when = " while memory changed" if slows_down else ""
        yield "sampled", f"{sampler.samples} times, every {each}{when}, largest gap {gap}"


def _storage(record: TrialRecord) -> str | None:
    """The speed that its disks were held to; None where nothing was."""
    if record.limits.storage == AS_IS or record.storage is None:
        return None
    disks = ", ".join(disk["name"] for disk in record.storage.disks)
    return f"{disks} held to {record.limits.storage}"


def _or_reason(record: TrialRecord, key: str, words: Any) -> str:
    value = getattr(record, key)
    return f"unknown: {record.missing.get(key, 'not recorded')}" if value is None else words(value)
