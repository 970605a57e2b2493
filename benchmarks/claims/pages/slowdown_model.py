"""docs/explanation/slowdown-model.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims.kept import calibration, rows
from claims.texts import Claim, says, table

PAGE = "docs/explanation/slowdown-model.md"
SWEEPS = ("validation-one-thread", "validation-two-threads", "validation")
_USES = (
    ("steady", "not slowed", "no limit slows anything"),
    ("steady", "nearest network", "as slow as the network with the most similar need"),
    ("steady", "counted", "counted bytes"),
    ("steady", "working set", "working set"),
    ("steady", "unlimited known", "layer table, unlimited time known"),
    ("steady", "never run", "layer table, never run"),
    ("start", "unlimited known", "start, unlimited time known"),
)


def scored() -> dict[tuple[str, str, str], list[str]]:
    """By sweep, stage and use: points, networks, error, p90 and how many intervals hold."""
    return {(row[0], row[1], row[2]): row[3:] for row in rows("slowdown_model")}


def claims() -> Iterator[Claim]:
    """In the page's order."""
    yield table("of each one's median.", _table())
    found = scored()
    networks = [
        int(found[s, stage, u][1])
        for s in SWEEPS
        for stage, u, _ in _USES
        if (s, stage, u) in found
    ]
    yield says("Medians are over {} to {} networks", min(networks), max(networks))
    slow = found["validation-storage", "steady", "file read=50MB/s,disk=ram"]
    few = found["validation-storage", "steady", "file read=300MB/s,read_iops=5000,disk=ram"]
    zram = found["validation-zram", "steady", "zram as-is"]
    yield says(
        "{} % at 50 MB/s ({} networks), {} % at 300 MB/s and 5,000 requests a second ({}), {} % in zram"
        " ({})",
        *(part for one in (slow, few, zram) for part in (_error(one), one[1])),
    )
    disk = calibration("file")
    yield says(
        "read from swap at {} to {} GB/s and written at {} to {}",
        *(f"{disk['swap_in_bytes_per_s'][end] / 1e9:.2f}" for end in ("low", "high")),
        *(f"{disk['swap_out_bytes_per_s'][end] / 1e9:.1f}" for end in ("low", "high")),
    )
    cubic = [found[sweep, "steady", "a limit left out"] for sweep in SWEEPS]
    yield says("is off by {}, {} and {} % at a limit that is left out", *map(_error, cubic))
    probe = [found[sweep, "steady", "probe"] for sweep in SWEEPS[:2]]
    yield says("is off by {} and {} % at the walks' other limits", *map(_error, probe))


def _table() -> Iterator[tuple[str, ...]]:
    found = scored()
    for stage, use, words in _USES:
        own = [found.get((sweep, stage, use)) for sweep in SWEEPS]
        yield (words, *(f"{_error(o)} % ({o[3]})" if o else "-" for o in own))
    held = [
        [found[sweep, stage, "unlimited known"][4] for stage in ("steady", "start")]
        for sweep in SWEEPS
    ]
    yield ("90 % intervals hold: steady, start", *(" · ".join(one) for one in held))


def _error(row: list[str]) -> str:
    return row[2].split()[0]
