"""The kinds of figures there are, which rows belong into one figure, and its names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pandas as pd
from matplotlib.figure import Figure

from edgebench.boards import emulation_words
from edgebench.records import LIMIT_WORDS
from edgebench.report.figures import style
from edgebench.results.columns import DISTINCT
from edgebench.results.derived import file_stem, write_derived
from edgebench.text import AS_IS, MIB, format_size
from edgebench.workloads.training.names import PYTORCH

#: The settings in a subtitle, and their format.
_SETTING_WORDS = {
    "schedule": "{} schedule",
    "loader": "{} loader",
    "batch": "batch {:g}",
    "image": "image {:g}",
    "threads": "threads {:g}",
    "page_cache": "{} page cache",
    "prompt": "prompt of {:g}",
    "new_tokens": "{:g} new tokens",
    "optimizer": "{}",
    "learning_rate": "rate {:g}",
    "data": "{}",
    "shape": "images of {}",
    **LIMIT_WORDS,
}
#: What sets workloads apart, but for networks and schedules.
SETTINGS = tuple(name for name in DISTINCT if name not in ("kind", "network", "schedule"))
#: The same of a figure whose axis is the batch.
BUT_BATCH = tuple(name for name in SETTINGS if name != "batch")


class NamedFigure(NamedTuple):
    """A figure and its file's name without an ending."""

    stem: str
    figure: Figure


class FigureKind(NamedTuple):
    """A kind of figure: its name, what draws it, and its place among those of every sweep.

    ``place`` is None where only a study's sweep has data for it.
    """

    name: str
    figures: Callable[..., Iterator[NamedFigure]]
    place: int | None


#: The kinds that :func:`figure_kind` registered.
REGISTERED: dict[str, FigureKind] = {}
_Draw = TypeVar("_Draw", bound=Callable[..., Iterator[NamedFigure]])


def figure_kind(name: str, place: int | None = None) -> Callable[[_Draw], _Draw]:
    """Register the function below it as what draws this kind of figure."""

    def register(draw: _Draw) -> _Draw:
        REGISTERED[name] = FigureKind(name, draw, place)
        return draw

    return register


def write_figures(figures: Iterable[NamedFigure], folder: Path) -> list[Path]:
    """Write the figures into the folder's ``figures/``, the second of one name as ``name-2``.

    Raises:
        ResultsError: the folder can't be written.
    """
    paths: list[Path] = []
    taken: set[str] = set()
    with style.figure_style():
        for stem, figure in figures:
            free = (f"{stem}-{number}" if number > 1 else stem for number in count(1))
            name = next(name for name in free if name not in taken)
            taken.add(name)
            for kind, data in style.figure_bytes(figure).items():
                paths.append(write_derived(folder / "figures", f"{name}.{kind}", data))
    return paths


class RowGroup(NamedTuple):
    """Rows that belong together, and the settings that they share."""

    settings: dict[str, Any]
    rows: pd.DataFrame


def row_groups(frame: pd.DataFrame, keys: Sequence[str]) -> Iterator[RowGroup]:
    """Group the frame by the keys that are among its columns, in the order in which they come."""
    known = [key for key in keys if key in frame.columns]
    for values, rows in frame.groupby(known, dropna=False, sort=False):
        made: tuple[Any, ...] = tuple(values)
        settings = {k: v for k, v in zip(known, made, strict=True) if not pd.isna(v)}
        yield RowGroup(settings, rows)


def subtitle(settings: Mapping[str, Any], *more: str) -> str:
    """Name the settings."""
    words = [emulation_words(settings["board"])] if settings.get("board") else []
    words += [how.format(settings[key]) for key, how in _SETTING_WORDS.items() if key in settings]
    kind, size = settings.get("swap_kind"), settings.get("swap_bytes")
    if kind:
        swap = f"{kind} swap" + (f" {format_size(size)}" if size else "")
        words.append("no swap" if kind == "none" else swap)
    if settings.get("framework", PYTORCH) != PYTORCH:
        words.insert(0, str(settings["framework"]))
    if settings.get("compiled"):
        words.append("compiled")
    if settings.get("storage", AS_IS) != AS_IS:
        words.append(f"storage {settings['storage']}")
    return "  ·  ".join([*words, *more])


def title_of(network: object, most: int = 62) -> str:
    """Shorten a network's or pipeline's name, or a command, for a title."""
    text = str(network).replace("+", " + ")
    return text if len(text) <= most else text[: most - 2] + "…"


def brief_labels(names: Sequence[str], most: int) -> list[str]:
    """Shorten names of layers: without what all share, and by their end, where they often differ.

    Equal ones get their place as a number.
    """
    cut = 0
    if len(names) > 1 and max(map(len, names)) > most:
        # The first and the last in order differ as early as any two.
        first, last = min(names), max(names)
        shared = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
        cut = max(first.rfind(mark, 0, shared) for mark in "/.") + 1
    ends = [name[cut:] for name in names]
    ends = [end if len(end) <= most else f"…{end[1 - most :]}" for end in ends]
    return [f"{n} {end}" if ends.count(end) > 1 else end for n, end in enumerate(ends)]


def stem_of(kind: str, settings: Mapping[str, Any], *words: object) -> str:
    """Name a figure's file; the default loader and batch are left out."""
    loader, batch = settings.get("loader", "copy"), settings.get("batch", 1)
    extra = [loader] if loader != "copy" else []
    extra += [f"batch{batch:g}"] if batch != 1 else []
    framework = settings.get("framework", PYTORCH)
    extra += [str(framework)] if framework != PYTORCH else []
    extra += ["compiled"] if settings.get("compiled") else []
    return file_stem(kind, *words, *extra)


def limit_names(rows: pd.DataFrame) -> dict[str, str]:
    """Label → name of each limit, unlimited first, then from the widest to the tightest."""
    limited = rows[rows["memory_bytes"].notna()]
    # A share is another size for each network; its mean share of demand puts it in order.
    relative = limited["memory_bytes"] / limited["workload_demand_bytes"].fillna(1.0)
    means = relative.groupby(limited["limit_label"]).mean().sort_values(ascending=False)
    unlimited = rows.loc[rows["memory_bytes"].isna(), "limit_label"].unique()
    return {str(label): limit_name(str(label), rows) for label in (*unlimited, *means.index)}


def limit_name(label: str, rows: pd.DataFrame) -> str:
    """Name a limit as a legend shows it: its size, and its share of demand."""
    if label == "max":
        return "unlimited"
    sizes = rows.loc[rows["limit_label"] == label, "memory_bytes"].dropna().unique()
    if len(sizes) != 1:
        return f"{label} of demand" if label.endswith("%") else label
    size = f"{sizes[0] / MIB:.0f} MiB"
    return f"{size} ({label})" if label.endswith("%") else size
