"""docs/explanation/measured-rates.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from claims.kept import FIGURES, MIB, figures
from claims.texts import Claim, says, table

PAGE = "docs/explanation/measured-rates.md"


def claims() -> Iterator[Claim]:
    """In the page's order."""
    yield from _rates()
    yield from _soak()
    yield from _many_lines()
    yield _mutation()


def _rates() -> Iterator[Claim]:
    rates = figures("compare_rates")
    kinds = {"`rates`": "sweeps", "`halves`": "halves"}
    rows = [[name, *_called(rates[key])] for name, key in kinds.items()]
    yield table("## How often `compare` is right", rows)
    yield says(
        "real sweeps of {} trials, each compared with each other", rates["sweeps"]["trials"] // 2
    )
    yield says("a sweep of {} trials, its blocks", rates["halves"]["trials"])
    yield says(
        "ratio over all times of equal sweeps is {} to {} in nine of ten pairs of `rates`",
        *(f"{rates['sweeps']['ratios'][end]:.2f}" for end in ("p05", "p95")),
    )


def _called(rates: dict[str, Any]) -> Iterator[str]:
    """How many pairs; called slower by a single comparison and over all times, of each kind."""
    yield str(rates["pairs"])
    for change, what in (("10", "wrong"), ("10", "found"), ("5", "found")):
        yield ", ".join(str(rates[change][what][by]) for by in ("single", "overall"))


def _soak() -> Iterator[Claim]:
    soak = figures("soak")
    assert soak["outcomes"] == {"ok": soak["trials"]}
    ends = {key: (of["second_tenth"], of["last_tenth"]) for key, of in soak.items() if _is_pair(of)}
    resident = ends["rss_bytes"]
    yield says("{} tiny trials in one sweep", f"{soak['trials']:,}")
    yield says(
        "all ok; descriptors {} and {}; resident {} and {} MB ({} %); edgebench's cgroups {} and {}",
        *(f"{x:.0f}" for x in ends["descriptors"]),
        *(f"{x / 1e6:.1f}" for x in resident),
        f"{100 * (resident[1] / resident[0] - 1):+.1f}",
        *(f"{x:.0f}" for x in ends["own_cgroups"]),
    )
    yield says(
        "not yet freed ones included, {} and {}; a trial takes {} and {} ms",
        *(f"{x:.0f}" for x in ends["memory_cgroups"]),
        *(f"{x * 1e3:.0f}" for x in ends["trial_s"]),
    )


def _is_pair(of: object) -> bool:
    return isinstance(of, dict) and "second_tenth" in of


def _many_lines() -> Iterator[Claim]:
    size = (FIGURES / "many_lines.md").read_text().partition("(")[2].partition(" MiB)")[0]
    told = figures("many_lines")
    yield says("100,000 results lines, {} MiB", size)
    yield says(
        "`show` {} s, {} MiB; `load` {} s, {} MiB; with the frame of trials {} s, {} MiB",
        *(
            figure
            for what in ("show", "load", "load, and the frame of trials")
            for figure in (
                f"{told[what]['seconds']:.1f}",
                f"{told[what]['peak_bytes'] / MIB:.0f}",
            )
        ),
    )


def _mutation() -> Claim:
    told = figures("mutation")
    quick = told["samples"]["quick"]
    return says(
        "one at a time, chosen at random from {} (`nox -s mutation`): the quick tests find {} % of {} "
        "(95 %: {} to {} %)",
        f"{told['made']:,}",
        *(f"{100 * quick['share']:.0f}", quick["tried"]),
        *(f"{100 * quick[key]:.0f}" for key in ("low", "high")),
    )
