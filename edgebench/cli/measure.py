"""``edgebench measure``: one trial of any command."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgebench.units import format_duration, format_size, parse_duration, parse_size

if TYPE_CHECKING:
    from edgebench.records.records import TrialRecord


@click.command(
    short_help="Run one command once under limits and measure it.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--memory", default="max", show_default=True, help="Limit, as 300M; max: none.")
@click.option(
    "--swap",
    default="none",
    show_default=True,
    help="Swap it may use: none, a size as 2G (a temporary swap file), or system.",
)
@click.option(
    "--swap-kind",
    type=click.Choice(["file", "zram", "system"]),
    default="file",
    show_default=True,
    help="What a swap of a given size is made of.",
)
@click.option("--cores", type=click.IntRange(min=1), help="Processor cores it may use.")
@click.option("--cpu-quota", type=click.FloatRange(min=0.01), help="CPU time, in cores, as 1.5.")
@click.option("--timeout", help="Kill it after this time, as 90s or 10m.")
@click.option("--interval", default="1ms", show_default=True, help="Sampling interval.")
@click.option(
    "--samples",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the samples in this .npz file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the record as JSON on stdout.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def measure(
    memory: str,
    swap: str,
    swap_kind: str,
    cores: int | None,
    cpu_quota: float | None,
    timeout: str | None,
    interval: str,
    samples: Path | None,
    as_json: bool,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND once in a fresh cgroup under the limits and tell what it took.

    What COMMAND prints goes to stderr. Its exit code is in the record; edgebench itself exits 0
    when the measurement succeeded, also if COMMAND failed or was killed at the limit.
    """
    from edgebench.records.records import LimitSetting
    from edgebench.sweep.measuring import measure_command

    kind = swap if swap in ("none", "system") else swap_kind
    limits = LimitSetting(
        label=memory,
        memory_bytes=parse_size(memory),
        swap_kind=kind,
        swap_bytes=parse_size(swap) if swap not in ("none", "system") else None,
        cores=cores,
        cpu_quota=cpu_quota,
    )
    record = measure_command(
        command,
        limits,
        timeout_s=parse_duration(timeout) if timeout else None,
        interval_s=parse_duration(interval),
        samples=samples,
        echo=_to_stderr,
    )
    click.echo(json.dumps(record.to_json(), indent=2) if as_json else _words(record))
    if samples:
        click.echo(f"samples: {samples}", err=True)


def _to_stderr(data: bytes) -> None:
    sys.stderr.buffer.write(data)
    sys.stderr.buffer.flush()


def _words(record: TrialRecord) -> str:
    sampler = record.sampler
    rows: list[tuple[str, Any]] = [
        ("outcome", record.outcome + (f": {record.reason}" if record.reason else "")),
        ("exit code", record.exit_code),
        ("time", format_duration(record.wall_s or 0.0)),
        ("CPU time", _or_reason(record, "cpu_s", format_duration)),
        ("limit", format_size(record.limit_bytes)),
        (f"peak ({record.peak_source}'s)", _or_reason(record, "peak_bytes", format_size)),
        ("", "the limit was reached: the demand is higher" if record.saturated else None),
        ("peak (sampled)", _or_reason(record, "sampled_peak_bytes", format_size)),
        ("peak (GNU time's)", _or_reason(record, "gnu_time_maxrss_bytes", format_size)),
        ("swap peak", _or_reason(record, "swap_peak_bytes", format_size)),
        ("major faults", _or_reason(record, "major_faults", str)),
    ]
    if sampler and sampler.achieved_s and sampler.largest_gap_s:
        rows.append(
            (
                "sampled",
                f"{sampler.samples} times, every {format_duration(sampler.achieved_s)}, "
                f"largest gap {format_duration(sampler.largest_gap_s)}",
            )
        )
    lines = [f"{name:<18}{value}" for name, value in rows if value is not None]
    lines += [f"warning: {warning}" for warning in record.warnings]
    return "\n".join(lines)


def _or_reason(record: TrialRecord, key: str, words: Any) -> str:
    value = getattr(record, key)
    return f"unknown: {record.missing.get(key, 'not told')}" if value is None else words(value)
