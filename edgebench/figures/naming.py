"""Which rows belong into one figure, and how it is called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from edgebench.results.derived import file_stem
from edgebench.results.frames import TRAINING
from edgebench.units import format_size

MIB = 1 << 20
#: What of the settings a subtitle tells, and how.
_TOLD = {
    "schedule": "{} schedule",
    "loader": "{} loader",
    "batch": "batch {:g}",
    "image": "image {:g}",
    "threads": "{:g} threads",
    "page_cache": "{} page cache",
    "optimizer": "{}",
    "learning_rate": "rate {:g}",
    "data": "{}",
    "shape": "images of {}",
    "cores": "{:g} cores",
    "cpu_quota": "{:g} CPUs",
}
#: What sets workloads apart, but for networks and schedules.
SETTINGS = (
    *("loader", "batch", "image", "rounds", "warm", "threads", "workers", "page_cache"),
    *("command", "cores", "cpu_quota", "swap_kind", "swap_bytes", *TRAINING),
)


class Drawn(NamedTuple):
    """A figure and its file's name without an ending; a notebook shows the figure."""

    stem: str
    figure: Figure

    def _repr_svg_(self) -> str:
        from edgebench.figures.style import applied, rendered

        with applied():
            return rendered(self.figure, ["svg"])["svg"].decode()


class Group(NamedTuple):
    """Rows that belong together, and the settings that they share."""

    settings: dict[str, Any]
    rows: pd.DataFrame


def groups(frame: pd.DataFrame, keys: Sequence[str]) -> Iterator[Group]:
    """The frame by the keys that are among its columns, in the order in which they come."""
    known = [key for key in keys if key in frame.columns]
    for values, rows in frame.groupby(known, dropna=False, sort=False):
        made: tuple[Any, ...] = tuple(values)
        told = {k: v for k, v in zip(known, made, strict=True) if not pd.isna(v)}
        yield Group(told, rows)


def subtitle(settings: Mapping[str, Any], *more: str) -> str:
    """The settings in words."""
    words = [how.format(settings[name]) for name, how in _TOLD.items() if name in settings]
    if "swap_kind" in settings:
        words.append(_swap(settings))
    return "  ·  ".join([*words, *more])


def title_of(network: object) -> str:
    """A network's or pipeline's name, or a command, short enough for a title."""
    text = str(network).replace("+", " + ")
    return text if len(text) <= 62 else text[:60] + "…"


def stem_of(kind: str, settings: Mapping[str, Any], taken: set[str], *words: object) -> str:
    """A name for the file that no figure before it has; the usual loader and batch go unsaid."""
    loader, batch = settings.get("loader", "copy"), settings.get("batch", 1)
    told = [loader] if loader != "copy" else []
    told += [f"batch{batch:g}"] if batch != 1 else []
    stem = base = file_stem(kind, *words, *told)
    number = 1
    while stem in taken:
        number += 1
        stem = f"{base}-{number}"
    taken.add(stem)
    return stem


def limit_order(rows: pd.DataFrame) -> list[str]:
    """The limits' labels from the widest to the tightest, without unlimited ones."""
    limited = rows[rows["memory_bytes"].notna()]
    # A share is another size for each network; its mean share of demand puts it in order.
    relative = limited["memory_bytes"] / limited["workload_demand_bytes"].fillna(1.0)
    means = relative.groupby(limited["limit_label"]).mean().sort_values(ascending=False)
    return [str(label) for label in means.index]


def limit_name(label: str, rows: pd.DataFrame) -> str:
    """A limit as a legend shows it: its size, and the share it was asked for as."""
    if label == "max":
        return "unlimited"
    sizes = rows.loc[rows["limit_label"] == label, "memory_bytes"].dropna().unique()
    if len(sizes) != 1:
        return f"{label} of demand" if label.endswith("%") else label
    size = f"{sizes[0] / MIB:.0f} MiB"
    return f"{size} ({label})" if label.endswith("%") else size


def _swap(settings: Mapping[str, Any]) -> str:
    if settings["swap_kind"] == "none":
        return "no swap"
    size = settings.get("swap_bytes")
    return f"{settings['swap_kind']} swap" + (f" {format_size(size)}" if size else "")
