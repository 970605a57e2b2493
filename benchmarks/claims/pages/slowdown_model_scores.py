"""docs/explanation/slowdown-model-scores.md."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from claims import published
from claims import validation as v
from claims.kept import FRESH_QUICKSTART, figures
from claims.texts import Claim, says, table

PAGE = "docs/explanation/slowdown-model-scores.md"
COLUMNS = (v.ONE, v.AS_IS, v.TEST)
SWEEPS = {
    v.TWO: "two threads, declared storage",
    FRESH_QUICKSTART: "quick start by fresh trials",
    "edgecaffe": "EdgeCaffe, declared storage",
    "training-limits": "trainings",
}


def claims() -> Iterator[Claim]:
    """In the page's order."""
    yield table("Models in brackets are baselines", _rows())
    yield table("The same at points slowed 1.5 times or more, in other sweeps", _other_rows())
    errors = published.errors()
    names = ("unslowed", "interpolated", "hinge", "pooled")
    yield table(
        "The mean error of each limit left out of all four schedules",
        [(f"`{n}`", f"{errors[n]:.1f} %") for n in names],
    )
    demands = figures("training_demand")
    off = median(100 * abs(one["simulated"] / one["measured"] - 1) for one in demands)
    yield says(
        "Of {} trainings the simulated demand is off by {} % in the median",
        *(len(demands), f"{off:.1f}"),
    )
    edges = v.edges()
    yield says(
        "({} trials with a bounded swap, {} killed) the model is right for {} % of trials of networks "
        "that never ran",
        *(edges["trials"], edges["killed"], f"{100 * edges['right']:.1f}"),
    )
    yield says("which knows the measured one, for {} %", f"{100 * edges['rule_right']:.1f}")


def _rows() -> Iterator[tuple[str, ...]]:
    """Every model's errors, by column."""
    for use, words in v.USES.items():
        name = words
        for model in (model for known, model in v.scores() if known == use):
            baseline = v.bands(v.AS_IS, use, model)["all"]["baseline"]
            cells = [name, f"(`{model}`)" if baseline else f"`{model}`"]
            for scenario in COLUMNS:
                found = v.bands(scenario, use, model)
                for band in ("all", "1.5", "2"):
                    cells.append(v.per_cent(found.get(band, {}).get("error")))
                cells.append(v.per_cent(found.get("1.5", {}).get("within_25"), 0))
            yield tuple(cells)
            name = ""
    cells = ["points", ""]
    for scenario in COLUMNS:
        found = v.bands(scenario, "unlimited")
        cells += [str(found.get(band, {}).get("points", 0)) for band in ("all", "1.5", "2")]
        cells.append("")
    yield tuple(cells)


def _other_rows() -> Iterator[tuple[str, ...]]:
    for scenario, words in SWEEPS.items():
        name = words
        for use, known in v.USES.items():
            slowed = v.bands(scenario, use).get("1.5")
            if slowed is None:
                continue
            nothing = v.bands(scenario, use, "unslowed").get("1.5", {}).get("error")
            held = v.bands(scenario, use)["all"]["coverage_90"]
            yield (
                *(name, known, str(slowed["points"])),
                *(v.per_cent(slowed["error"]), v.per_cent(nothing)),
                *(v.per_cent(slowed["noise"]), v.per_cent(held, 0)),
            )
            name = ""
