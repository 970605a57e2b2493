"""Study C's tables: trials, effects, the paper's conclusion, and a background's work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from edgebench.errors import ResultsError
from edgebench.studies.hyperparameters import (
    GROUPS,
    background_shift,
    draw_frame,
    measures_of,
    search_axes,
    search_effects,
    verdicts,
)
from edgebench.studies.tables import Column, StudyTable

if TYPE_CHECKING:
    from edgebench.results.results import Results
    from edgebench.studies.effects import Effect

_MIB = 1 << 20


def search_tables(results: Results) -> list[StudyTable]:
    """The trials; effects with intervals; work C's conclusion held against them; the background's.

    Raises:
        ResultsError: this sweep was no random search.
    """
    trials = _trials(results)
    try:
        return [trials, *_effect_tables(results)]
    except ResultsError as error:
        # Its trials are worth showing, however few.
        return [replace(trials, says=(f"no effects: {error.what}",))]


def _trials(results: Results) -> StudyTable:
    """One row a trial, as work C's tables had it, with every measure side by side."""
    draws = draw_frame(results)
    groups = [name for name in GROUPS if name in draws and draws[name].nunique() > 1]
    axes = search_axes(results.sweeps[0])
    words = {
        name for name in (*groups, *axes) if any(isinstance(value, str) for value in draws[name])
    }
    columns = (
        Column("trial", "trial", words=True),
        *(_setting(name, name in words) for name in groups),
        *(_setting(name, name in words) for name in axes if name not in groups),
        Column("wall_s", "s", "{:.1f}"),
        *(Column(name, _title(name), "{:.1f}", _MIB) for name in measures_of(draws)),
        Column("outcome", "outcome", words=True),
    )
    rows: list[dict[str, Any]] = draws.to_dict("records")  # type: ignore[assignment]
    return StudyTable("trials", "Trials of the search; memory in MiB", columns, rows)


def _setting(name: str, words: bool) -> Column:
    if name == "background_bytes":
        return Column(name, "background MiB", "{:.0f}", _MIB)
    return Column(name, name, "{:.4g}", words=words)


def _title(measure: str) -> str:
    """``own`` and ``system 5s``."""
    return measure.removesuffix("_bytes").replace("_", " ")


def _effect_tables(results: Results) -> list[StudyTable]:
    found = search_effects(results)
    named = _names(found)
    tables = [_effects(found, named)]
    if said := list(verdicts(found)):
        rows = [
            {**_named(v.effect, named), "survives": "yes" if v.survives else "no", "says": v.says}
            for v in said
        ]
        columns = (
            Column("group", "draws of", words=True),
            Column("measure", "measure", words=True),
            Column("survives", "survives", words=True),
            Column("says", "", words=True),
        )
        title = '"Small learning rates use more memory": does it survive?'
        tables.append(StudyTable("verdict", title, columns, rows))
    moved = [asdict(one) for one in background_shift(draw_frame(results))]
    if moved:
        tables.append(_background(moved))
    return tables


def _effects(found: Sequence[Effect], named: Sequence[str]) -> StudyTable:
    columns = (
        Column("group", "draws of", words=True),
        Column("measure", "measure", words=True),
        Column("setting", "setting", words=True),
        Column("size", "effect", "{:+.2f}"),
        Column("low", "from", "{:+.2f}"),
        Column("high", "to", "{:+.2f}"),
        Column("across", "MiB over its range", "{:+.1f}", _MIB),
        Column("across_low", "from", "{:+.1f}", _MIB),
        Column("across_high", "to", "{:+.1f}", _MIB),
        Column("share", "explains", "{:.0%}"),
        Column("rank", "rank alone", "{:+.2f}"),
        Column("shown", "shown", words=True),
    )
    rows = [{**asdict(e), **_named(e, named), "shown": "yes" if e.shown else "no"} for e in found]
    draws = sorted({effect.draws for effect in found})
    says = (
        "effect: standard deviations of memory for one of the setting, all others held; "
        f"95 % intervals of {' or '.join(map(str, draws))} draws, of which one in 20 is wrong",
    )
    return StudyTable("effects", "Which settings matter for memory", columns, rows, says)


def _names(found: Sequence[Effect]) -> list[str]:
    """What sets groups apart: the rest is the same for all of them."""
    groups = [effect.group for effect in found]
    return [name for name in groups[0] if len({group[name] for group in groups}) > 1]


def _named(effect: Effect, named: Sequence[str]) -> dict[str, str]:
    return {
        "group": _words({name: effect.group[name] for name in named}),
        "measure": _title(effect.measure),
        "setting": effect.setting,
    }


def _words(group: Mapping[str, Any]) -> str:
    told = dict(group)
    background = told.pop("background_bytes", None)
    words = [str(value) for value in told.values()]
    words += [] if background is None else [f"background {int(background) // _MIB} MiB"]
    return ", ".join(words) or "all"


def _background(rows: list[dict[str, Any]]) -> StudyTable:
    columns = (
        Column("measure", "measure", words=True),
        Column("background_bytes", "background MiB", "{:.0f}", _MIB),
        Column("draws", "draws", "{:g}"),
        Column("median_share", "moved by (median)", "{:.2%}"),
        Column("largest_share", "at most", "{:.2%}"),
    )
    rows = [{**row, "measure": _title(row["measure"])} for row in rows]
    title = "How a background beside the trial moves each measure of the same draws"
    return StudyTable("background", title, columns, rows)
