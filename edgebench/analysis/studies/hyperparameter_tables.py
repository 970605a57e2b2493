"""The tables of a random search: trials, effects, the paper's conclusion, background memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from edgebench.analysis.studies.hyperparameters import (
    GROUPS,
    background_effects,
    draw_frame,
    learning_rate_checks,
    measures_of,
    search_axes,
    search_effects,
)
from edgebench.analysis.studies.tables import Column, StudyTable
from edgebench.errors import ResultsError
from edgebench.units import MIB
from edgebench.words.studies import effects_sentence

if TYPE_CHECKING:
    from edgebench.analysis.studies.effects import SettingEffect
    from edgebench.results.results import Results


def search_tables(results: Results) -> list[StudyTable]:
    """Trials, effects with intervals, the paper's conclusion, and the effect of background memory.

    Raises:
        ResultsError: this sweep is not a random search.
    """
    trials = _trials(results)
    try:
        return [trials, *_effect_tables(results)]
    except ResultsError as error:
        # The trials are shown even if they are too few for effects.
        return [replace(trials, says=(f"no effects: {error.what}",))]


def _trials(results: Results) -> StudyTable:
    """One row per trial, as in the paper's tables, with every measure."""
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
        *(Column(name, _title(name), "{:.1f}", MIB) for name in measures_of(draws)),
        Column("outcome", "outcome", words=True),
    )
    rows: list[dict[str, Any]] = draws.to_dict("records")  # type: ignore[assignment]
    return StudyTable("trials", "Trials of the search; memory in MiB", columns, rows)


def _setting(name: str, words: bool) -> Column:
    if name == "background_bytes":
        return Column(name, "background MiB", "{:.0f}", MIB)
    return Column(name, name, "{:.4g}", words=words)


def _title(measure: str) -> str:
    """``own`` and ``system 5s``."""
    return measure.removesuffix("_bytes").replace("_", " ")


def _effect_tables(results: Results) -> list[StudyTable]:
    found = search_effects(results)
    groups = [effect.group for effect in found]
    # The settings in which the groups differ.
    named = [name for name in groups[0] if len({group[name] for group in groups}) > 1]
    tables = [_effects(found, named)]
    if said := list(learning_rate_checks(found)):
        rows = [
            {**_named(v.effect, named), "survives": "yes" if v.survives else "no", "says": v.says}
            for v in said
        ]
        columns = (
            Column("group", "draws of", words=True),
            Column("measure", "measure", words=True),
            Column("survives", "confirmed", words=True),
            Column("says", "", words=True),
        )
        title = 'Mahendran\'s conclusion "small learning rates use more memory", checked'
        tables.append(StudyTable("verdict", title, columns, rows))
    moved = [asdict(one) for one in background_effects(draw_frame(results))]
    if moved:
        tables.append(_background(moved))
    return tables


def _effects(found: Sequence[SettingEffect], named: Sequence[str]) -> StudyTable:
    columns = (
        Column("group", "draws of", words=True),
        Column("measure", "measure", words=True),
        Column("setting", "setting", words=True),
        Column("size", "effect", "{:+.2f}"),
        Column("low", "from", "{:+.2f}"),
        Column("high", "to", "{:+.2f}"),
        Column("across", "MiB over its range", "{:+.1f}", MIB),
        Column("across_low", "from", "{:+.1f}", MIB),
        Column("across_high", "to", "{:+.1f}", MIB),
        Column("share", "variance explained", "{:.0%}"),
        Column("rank", "rank correlation", "{:+.2f}"),
        Column("shown", "interval excludes 0", words=True),
    )
    rows = [{**asdict(e), **_named(e, named), "shown": "yes" if e.shown else "no"} for e in found]
    draws = sorted({effect.draws for effect in found})
    says = (
        "effect: standard deviations of memory per standard deviation of the setting, the other "
        f"settings constant; 95 % intervals from {' or '.join(map(str, draws))} draws",
    )
    title = "Which settings matter for memory"
    return StudyTable("effects", title, columns, rows, says, _answer(found))


def _answer(found: Sequence[SettingEffect]) -> str:
    """Which settings have an effect on memory that is not chance."""
    proved = dict.fromkeys(effect.setting for effect in found if effect.shown)
    others = dict.fromkeys(e.setting for e in found if e.setting not in proved)
    return effects_sentence(list(proved), list(others))


def _named(effect: SettingEffect, named: Sequence[str]) -> dict[str, str]:
    return {
        "group": _words({name: effect.group[name] for name in named}),
        "measure": _title(effect.measure),
        "setting": effect.setting,
    }


def _words(group: Mapping[str, Any]) -> str:
    told = dict(group)
    background = told.pop("background_bytes", None)
    words = [str(value) for value in told.values()]
    words += [] if background is None else [f"background {int(background) // MIB} MiB"]
    return ", ".join(words) or "all"


def _background(rows: list[dict[str, Any]]) -> StudyTable:
    columns = (
        Column("measure", "measure", words=True),
        Column("background_bytes", "background MiB", "{:.0f}", MIB),
        Column("draws", "draws", "{:g}"),
        Column("median_share", "median change", "{:.2%}"),
        Column("largest_share", "largest change", "{:.2%}"),
    )
    rows = [{**row, "measure": _title(row["measure"])} for row in rows]
    title = "How background memory changes each measure of the same draws"
    return StudyTable("background", title, columns, rows)
