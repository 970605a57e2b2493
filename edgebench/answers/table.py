"""A table as text cells, and numbers as its cells show them: one unit a column, three digits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from edgebench.text import format_duration

if TYPE_CHECKING:
    from edgebench.results.times import Ratio, Spread

#: Between two parts of a headline.
GAP = "   "
#: Repeats agree where none is farther from its median.
_AGREE = 0.1
#: Shorter times are told in milliseconds.
_SHORT_S = 0.1
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@dataclass(frozen=True)
class Table:
    """Cells as text, a list for each row. ``left``: titles of columns that are aligned left."""

    columns: tuple[str, ...]
    rows: list[list[str]]
    left: tuple[str, ...] = ()
    title: str = ""
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data for the page."""
        return asdict(self)


def filled_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *left: str) -> Table:
    """Return the table without the columns that have no cell."""
    every = [list(row) for row in rows]
    kept = [n for n in range(len(columns)) if n == 0 or any(row[n] for row in every)]
    cells = [[row[n] for n in kept] for row in every]
    return Table(tuple(columns[n] for n in kept), cells, left)


def headline(name: str, *parts: str) -> str:
    """Join a name and what is known of it; parts without text are left out."""
    return GAP.join(filter(None, (name, *parts)))


def size_cells(sizes: Sequence[float | None]) -> list[str]:
    """Format the sizes of a column in one unit, aligned at its end; empty for None."""
    known = [size for size in sizes if size is not None]
    if not known:
        return [""] * len(sizes)
    unit = "MiB"
    if max(known) < _UNITS["MiB"]:
        unit = "KiB"
    elif min(known) >= 10 * _UNITS["GiB"]:
        unit = "GiB"
    values = [size / _UNITS[unit] for size in known]
    whole = all(round(value, 1) == round(value) for value in values)
    decimals = 0 if whole or max(values) >= 99.95 else 1
    # Different limits must not look the same.
    if len({f"{v:.{decimals}f}" for v in values}) < len({*values}) and decimals == 0:
        decimals = 1
    texts = iter(f"{value:.{decimals}f} {unit}" for value in values)
    cells = ["" if size is None else next(texts) for size in sizes]
    width = max(map(len, cells))
    return [cell and f"{cell:>{width}}" for cell in cells]


def size(size_bytes: float | None) -> str:
    """``412 MiB``, ``8.4 MiB``, ``1.52 GiB``; ``?`` if it isn't known."""
    if size_bytes is None:
        return "?"
    if size_bytes >= 10 * _UNITS["GiB"]:
        return f"{size_bytes / _UNITS['GiB']:.3g} GiB"
    if size_bytes and size_bytes % _UNITS["GiB"] == 0:
        return f"{size_bytes // _UNITS['GiB']:.0f} GiB"
    unit = "MiB" if size_bytes >= _UNITS["MiB"] else "KiB"
    value = size_bytes / _UNITS[unit]
    text = f"{value:.0f}" if value >= 99.95 else f"{value:.1f}".removesuffix(".0")
    return f"{text} {unit}"


def time_cells(times: Sequence[float | None]) -> list[str]:
    """Format the seconds of a column in one unit: milliseconds where one is below 0.1 s."""
    known = [abs(time) for time in times if time is not None]
    milli = bool(known) and max(known) < 1 and min(known) < _SHORT_S
    form = _milliseconds if milli else _seconds
    return ["" if time is None else form(time) for time in times]


def _milliseconds(time_s: float) -> str:
    value = 1e3 * time_s
    decimals = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:.{decimals}f} ms"


def seconds(time_s: float | None) -> str:
    """``0.31 s``, ``12.3 s``, ``1 min 23 s``; milliseconds below 0.1 s; ``?`` if not known."""
    if time_s is None:
        return "?"
    if 0 < abs(time_s) < _SHORT_S:
        return _milliseconds(time_s)
    return _seconds(time_s)


def _seconds(time_s: float) -> str:
    if abs(time_s) >= 60:
        return format_duration(time_s)
    return f"{time_s:.1f} s" if abs(time_s) >= 9.995 else f"{time_s:.2f} s"


def factor(value: float | None) -> str:
    """``1.07x``, ``15.3x``, ``120x``; empty for None."""
    if value is None:
        return ""
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}x"


def brief_factor(value: float) -> str:
    """``1.1x``, ``18x``."""
    return f"{value:.{1 if value < 9.95 else 0}f}x"


def slowdown(ratio: Ratio | None) -> str:
    """Its median; with two digits and ``~`` where repeats don't agree."""
    if ratio is None:
        return ""
    if ratio.off is None or ratio.off <= _AGREE:
        return factor(ratio.median)
    return f"~{brief_factor(ratio.median)}"


def share(part: float | None) -> str:
    """``62 %``; empty for None."""
    return "" if part is None else f"{100 * part:.0f} %"


def median(spread: Spread | None) -> float | None:
    """Return a spread's median, if there is one."""
    return spread.median if spread else None
