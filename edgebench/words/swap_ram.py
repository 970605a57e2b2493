"""What is said of the RAM that swap takes in zram or zswap."""

from __future__ import annotations

from edgebench.records import TrialRecord
from edgebench.units import MIB, format_size


def counted_bytes(record: TrialRecord) -> int:
    """What swap took of the trial's limit; 0 for too little to tell."""
    taken = record.swap_ram
    if taken is None or taken.limit_least_bytes is None or taken.peak_bytes < MIB:
        return 0
    return taken.peak_bytes


def with_swap_words(record: TrialRecord) -> str:
    """`` and 159.2 MiB of swap, which took 80.8 MiB of the memory in zram``; empty without."""
    used = record.swap_peak_bytes
    words = f" and {format_size(used)} of swap" if used else ""
    if words and record.swap_ram and (counted := counted_bytes(record)):
        words += f", which took {format_size(counted)} of the memory in {record.swap_ram.kind}"
    return words


def more_than_words(record: TrialRecord) -> str:
    """``228.0 MiB, of which zram took 162.9 MiB``: what was too little."""
    limit = format_size(record.limit_bytes)
    if record.swap_ram and (counted := counted_bytes(record)):
        return f"{limit}, of which {record.swap_ram.kind} took {format_size(counted)}"
    return limit + with_swap_words(record)


def swap_ram_words(record: TrialRecord) -> str:
    """What it took and whether the limit counts it; empty for nothing."""
    taken = record.swap_ram
    if taken is None:
        return ""
    size = f"took {format_size(taken.peak_bytes)} of RAM"
    if taken.not_charged:
        return f"{size}, which no limit counts: {taken.not_charged}"
    least = format_size(taken.limit_least_bytes)
    doubt = f" (it is the growth {taken.doubt})" if taken.doubt else ""
    return f"{size}, which the limit counts: the rest had {least} at the least{doubt}"
