"""How right the slowdown model is about what was held out, and what the plain rules say."""

from __future__ import annotations

from functools import cache
from typing import Any

from claims.kept import DEVICE, figures

#: Scores of a use and model, by band of slowdown.
Bands = dict[str, dict[str, Any]]
#: The columns: scenarios with storage at a declared speed with one thread and with two, as it is,
#: and the test part.
ONE, TWO, AS_IS, TEST = (
    *("validation-one-thread", "validation-walk"),
    *("validation", "validation-test"),
)
#: What is known, in words.
USES = {
    "known": "a network, but for a limit left out",
    "unlimited": "of a network its unlimited trials",
    "unrun": "nothing of a network",
}
#: The uses of a part that is kept out of all fitting.
_APART = {"known": "known", "unlimited": "held-out", "unrun": "held-out-unrun"}


@cache
def scores(scenario: str = AS_IS, phase: str = "all") -> dict[tuple[str, str], Bands]:
    """Those of each use and model, as ``validation.py`` keeps them."""
    found: dict[tuple[str, str], Bands] = {}
    for score in _kept(scenario).get("uses", {}).get(phase, ()):
        found.setdefault((score["use"], score["model"]), {})[score["band"]] = score
    return found


def bands(scenario: str, use: str, model: str = "combined") -> Bands:
    """A model's scores in a column; empty where there are none."""
    return scores(scenario).get((_APART[use] if scenario == TEST else use, model), {})


def counted_bytes(scenario: str, loader: str) -> dict[str, Any]:
    """How near the simulated bytes of a steady round are; empty where none were counted."""
    found: dict[str, Any] = _kept(scenario).get("bytes", {}).get(loader, {})
    return found


def edges() -> dict[str, Any]:
    """Which limits kill networks that never ran."""
    found: dict[str, Any] = _kept("validation-edge")["edges"]
    return found


def _kept(scenario: str) -> dict[str, Any]:
    kept: dict[str, Any] = figures("validation").get(scenario, {})
    if kept and not (DEVICE / kept["sweep"]).is_dir():
        raise LookupError(f"asked of {kept['sweep']}: run benchmarks/validation.py again")
    return kept


def per_cent(share: float | None, digits: int = 1) -> str:
    """``12.3 %``; a dash for none."""
    return "-" if share is None else f"{100 * share:.{digits}f} %"
