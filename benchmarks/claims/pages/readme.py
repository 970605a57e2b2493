"""README.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims import edgecaffe
from claims import validation as v
from claims.kept import figures, sweep
from claims.pages import boards, engines
from claims.texts import Claim, says, table

PAGE = "README.md"


def claims() -> Iterator[Claim]:
    """In the page's order."""
    trials = sweep("edgecaffe").trials
    load, first, warm = (edgecaffe.ratio("alexnet", phase) for phase in edgecaffe.PHASES)
    yield says("*{} trials of four networks", len(trials))
    yield says(
        "At {} MiB AlexNet takes {} times as long to load as unlimited, but {} to {} times as long to "
        "execute",
        *(edgecaffe.TIGHTEST_MIB, f"{load:.1f}", f"{first:.0f}", f"{warm:.0f}"),
    )
    yield table("## The same network in four engines", engines.in_short())
    yield says(
        "takes {} s on a Raspberry Pi Zero 2 W's card and {} s on a ROCK 5B's eMMC",
        *(
            f"{boards.seconds_at_tightest(name):.2f}"
            for name in ("raspberry-pi-zero-2w", "rock-5b-4g")
        ),
    )
    yield from _advice()
    yield from _predictions()


def _predictions() -> Iterator[Claim]:
    found = v.scores("validation-test")
    given, nothing = (found["held-out", model] for model in ("combined", "unslowed"))
    off = (f"{100 * one['1.5']['error']:.1f}" for one in (given, nothing))
    yield says(
        "the median error is {} % at points slowed down 1.5 times or more, where always predicting"
        ' "no slowdown" has an error of {} %',
        *off,
    )
    yield says("contain {} % there", f"{100 * given['1.5']['coverage_90']:.0f}")


def _advice() -> Iterator[Claim]:
    """What the benchmark of ``advise`` found: the times it printed, and its fresh trials."""
    found = figures("advise_training")
    best, slowdown = found["best"], found["slowdown"]
    yield says(
        "at 250 MiB takes {} s a step, {} times as long as without a limit",
        *(f"{found['plain_s']:.2f}", f"{slowdown:.1f}"),
    )
    yield says("In {} minutes `edgebench advise` found", f"{found['total_s'] / 60:.1f}")
    yield says(
        "makes it {} times faster there (95 % interval {} to {})",
        *(f"{1 / best[key]:.1f}" for key in ("ratio", "high", "low")),
    )
    yield says(
        "With it {} of {} fresh trials finished, without it {} of {}",
        *(best["finished"], best["trials"], best["plain_finished"], best["trials"]),
    )
    yield says("a step takes {} times as long", f"{best['unlimited_ratio']:.1f}")
    yield says(
        "three quarters of the memory that they need take {} times as long with all weights loaded, "
        "and {} times with",
        *(f"{_streamed(way):.0f}" for way in ("bulk, copy", "stream, mmap")),
    )


def _streamed(way: str) -> float:
    """AlexNet's slowdown at three quarters of what a pass needs, one way."""
    rows = figures("stream_bound")["networks"]["alexnet"]["rows"]
    return next(
        row["slowdown"] for row in rows if row["way"] == way and round(row["share"] or 0, 2) == 0.75
    )
