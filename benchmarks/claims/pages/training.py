"""docs/how-to/training.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims import training as t
from claims.kept import MIB
from claims.texts import Claim, table

PAGE = "docs/how-to/training.md"


def claims() -> Iterator[Claim]:
    """In the page's order."""
    yield table("What a limit costs\n", map(_limit, t.LABELS))


def _limit(label: str) -> list[str]:
    trials = t.trials(label)
    limit = trials["limit_bytes"].iloc[0] / MIB
    words = "unlimited" if label == "max" else f"{label.replace('%', ' %')} ({limit:.0f} MiB)"
    return [
        words,
        _both([float(x) / MIB for x in trials["swap_peak_bytes"]], 0) + " MiB",
        _both(t.first_steps_ms(label), 0),
        _both(t.later_ms(label), 1),
    ]


def _both(values: list[float], digits: int) -> str:
    """Both trials' values, once if they are printed alike."""
    return ", ".join(dict.fromkeys(f"{value:.{digits}f}" for value in values))
