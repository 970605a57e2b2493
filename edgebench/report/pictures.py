"""A report's figures: those that ``edgebench plot`` draws, as bytes."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgebench.errors import ResultsError
from edgebench.report.page import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from edgebench.results.results import Results

#: An SVG larger than this is embedded as PNG, which no number of points makes larger.
LARGEST_SVG = 150_000
#: With more points and shapes than this an SVG is too large for sure, and takes long to make.
_MOST_MARKS = 800
#: All embedded figures together; a page with its tables stays well below 5 MB.
LARGEST_ALL = 4_000_000
#: Enough for lines and shades on paper; a third of the bytes.
_COLOURS = 128


@dataclass(frozen=True)
class Embedded:
    """A figure as an address that holds all of it."""

    stem: str
    shows: str
    address: str


def draw_pictures(results: Results, as_png: bool) -> tuple[list[Picture], list[str]]:
    """Every figure that can be drawn, and of each kind that can't the reason.

    Those that are too large as SVG are made as PNG; with ``as_png`` all are.
    """
    from edgebench.figures.gallery import KINDS, STUDIES
    from edgebench.figures.style import applied

    pictures: list[Picture] = []
    reasons: list[str] = []
    with applied():
        for kind, figures in {**KINDS, **STUDIES}.items():
            try:
                for stem, figure in figures(results):
                    pictures.append(_picture(stem, figure, as_png))
            except ResultsError as error:
                if kind in KINDS:
                    reasons.append(f"no {kind} figure: {error.what}")
    return pictures, reasons


def embedded(pictures: Sequence[Picture]) -> tuple[list[Embedded], list[str]]:
    """The figures as they go into a page, and what of them would make it too large."""
    kept, left_out, size = [], [], 0
    for picture in pictures:
        address = _address(picture)
        if size + len(address) > LARGEST_ALL:
            left_out.append(
                f"figure {picture.stem}: the page would grow too large (edgebench plot)"
            )
            continue
        size += len(address)
        kept.append(Embedded(picture.stem, picture.shows, address))
    return kept, left_out


def is_pixels(picture: Picture) -> bool:
    """Whether a figure goes into a page as pixels: as SVG it was not made, or is too large."""
    return not 0 < len(picture.svg) <= LARGEST_SVG


def _picture(stem: str, figure: Figure, as_png: bool) -> Picture:
    from edgebench.figures.style import rendered

    drawn = {"svg": b""} if _marks(figure) > _MOST_MARKS else rendered(figure, ["svg"])
    if as_png or not 0 < len(drawn["svg"]) <= LARGEST_SVG:
        drawn |= rendered(figure, ["png"])
    return Picture(stem, _shows(figure, stem), **drawn)


def _marks(figure: Figure) -> int:
    """How many points and shapes it is made of."""
    return sum(_marks_of(axes) for axes in figure.axes)


def _marks_of(axes: Axes) -> int:
    import numpy as np

    lines = [line for line in axes.lines if line.get_marker() not in ("None", "")]
    points = sum(np.size(line.get_xdata()) for line in lines)
    shapes = sum(
        max(len(one.get_paths()), len(np.atleast_2d(one.get_offsets()))) for one in axes.collections
    )
    return points + shapes + len(axes.patches)


def _address(picture: Picture) -> str:
    if not is_pixels(picture):
        return f"data:image/svg+xml;base64,{base64.b64encode(picture.svg).decode()}"
    return f"data:image/png;base64,{base64.b64encode(_small(picture.png)).decode()}"


def _small(png: bytes) -> bytes:
    """The same picture with few colours, if that is smaller."""
    from PIL import Image

    target = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        image.convert("RGB").quantize(_COLOURS).save(target, "png", optimize=True)
    return min(png, target.getvalue(), key=len)


def _shows(figure: Figure, stem: str) -> str:
    """The figure's own title and subtitle."""
    words = [text.get_text() for text in figure.texts[:2]]
    return ": ".join(word for word in words if word) or stem
