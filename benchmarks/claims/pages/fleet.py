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
        "In {} of {} shared sweeps of {} trials each trial was recorded once",
        *(len(whole), len(rounds), most),
    )
    study = figures("fleet_study")
    yield says(
        "its {} trials were shared by three workers, {}, {} and {} of them",
        *(study["planned"], *(study["machines"][name] for name in ("one", "two", "three"))),
    )
    yield says("recorded once; {} were killed by its limit", study["outcomes"]["oom-killed"])
    scale = figures("fleet_scale")
    assert scale["once_each"]
    yield says(
        "{} made-up trials of 0.2 to 5 s, made shorter by {}, shared by {} simulated workers",
        *(f"{scale['trials']:,}", scale["clock"], scale["workers"]),
    )
    yield says("recorded once, {} % later than the ideal finish", f"{100 * scale['overhead']:.1f}")
    yield says("the controller took up to {} MB", round(scale["controller_rss_bytes"] / 1e6))
