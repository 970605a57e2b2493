"""docs/how-to/fleet.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims.kept import figures
from claims.texts import Claim, says

PAGE = "docs/how-to/fleet.md"


def claims() -> Iterator[Claim]:
    """In the page's order."""
    rounds = figures("fleet_losses")["rounds"]
    most = max(one["recorded"] for one in rounds)
    whole = [one for one in rounds if one["recorded"] == most and not one["twice"]]
    yield says(
        "In {} of {} shared sweeps of {} trials, every trial was recorded once",
        *(len(whole), len(rounds), most),
    )
    study = figures("fleet_study")
    yield says(
        "its {} trials were shared by three workers, {}, {} and {} of them",
        *(study["planned"], *(study["machines"][name] for name in ("one", "two", "three"))),
    )
    yield says("recorded once; {} were killed by its limit", study["outcomes"]["oom-killed"])
