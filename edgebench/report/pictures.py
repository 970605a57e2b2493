"""The figures of a report as bytes, the same as ``edgebench plot`` draws."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgebench.parallel import begun_in_parallel
from edgebench.report.content import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from PIL.Image import Image

    from edgebench.report.figures.naming import NamedFigure
    from edgebench.results.results import Results

#: An SVG larger than this is embedded as PNG, which no number of points makes larger.
LARGEST_SVG = 160_000
#: About what an SVG takes for a character, a tick, a point, a corner of a shape and one of a line,
#: bytes.
_TEXT_BYTES, _TICK_BYTES, _POINT_BYTES, _CORNER_BYTES, _LINE_BYTES = 120, 250, 110, 22, 8
#: All embedded figures together; a page with its tables stays well below 5 MB.
LARGEST_ALL = 4_000_000
#: Says which layers cause the slowdown.
_CAUSE = "layer-costs"
#: The kinds that show every layer's time. A report leaves them to ``edgebench plot``, unless it has
#: no figure of the cause.
_ALL_LAYERS = ("layer-times", "loading-execution")
#: Enough for lines and shades on paper; a third of the bytes.
_COLOURS = 256


@dataclass(frozen=True)
class EmbeddedPicture:
    """A figure as a ``data:`` address that holds the whole image."""

    stem: str
    shows: str
    address: str


def draw_pictures(
    results: Results, pngs: bool, meanwhile: Callable[[], object]
) -> tuple[list[Picture], list[str]]:
    """The figures that answer a report's questions, and for each kind without one the reason.

    Figures too large as SVG are made as PNG; with ``pngs`` each also as PNG in full colours.
    ``meanwhile`` is called while some are drawn.
    """
    # One is worth a process: matplotlib is imported meanwhile.
    with begun_in_parallel(lambda _: results.read_frames(), [None], least=1) as read:
        from edgebench.report.figures.gallery import KINDS, STUDIES, draw_kinds

        results.take_frames(*read()[0])

    def make(one: NamedFigure) -> Picture:
        return _picture(one.stem, one.figure, pngs)

    kinds = {**KINDS, **STUDIES}
    left = {kind: kinds.pop(kind) for kind in _ALL_LAYERS if kind in kinds}
    drawn = draw_kinds(results, kinds, make, meanwhile)
    if _CAUSE in drawn and not drawn[_CAUSE].made:
        drawn |= draw_kinds(results, left, make)
    pictures = [picture for kind in drawn.values() for picture in kind.made]
    return pictures, [one.reason for kind, one in drawn.items() if kind in KINDS and one.reason]


def embedded_pictures(pictures: Sequence[Picture]) -> tuple[list[EmbeddedPicture], list[str]]:
    """The figures that a page embeds, and messages on those that would make it too large."""
    kept, left_out, size = [], [], 0
    for picture in pictures:
        address = _address(picture)
        if size + len(address) > LARGEST_ALL:
            left_out.append(
                f"figure {picture.stem} is left out, the page would be too large"
                " (edgebench plot draws it)"
            )
            continue
        size += len(address)
        kept.append(EmbeddedPicture(picture.stem, picture.shows, address))
    return kept, left_out


def _is_png(picture: Picture) -> bool:
    """Whether a page embeds the figure as PNG: it has no SVG, or its SVG is too large."""
    return not 0 < len(picture.svg) <= LARGEST_SVG


def _picture(stem: str, figure: Figure, pngs: bool) -> Picture:
    from edgebench.report.figures.layout import lay_out
    from edgebench.report.figures.style import figure_bytes

    lay_out(figure)
    # An SVG that will be too large takes long to make.
    is_large = _svg_bytes(figure) > LARGEST_SVG
    svg = b"" if is_large else figure_bytes(figure, ["svg"])["svg"]
    # The figure's own title and subtitle.
    words = [text.get_text() for text in figure.texts[:2]]
    picture = Picture(stem, ": ".join(word for word in words if word) or stem, svg)
    if pngs:
        picture = replace(picture, png=figure_bytes(figure, ["png"])["png"])
    if _is_png(picture):
        # Here, where other figures are drawn at the same time.
        picture = replace(picture, small=_few_colours(_pixels(figure)))
    return picture


def _svg_bytes(figure: Figure) -> int:
    """About how large its SVG will be."""
    from matplotlib.text import Text

    texts = [one for one in figure.findobj(Text) if isinstance(one, Text)]
    size = _TEXT_BYTES * sum(len(text.get_text()) for text in texts if text.get_visible())
    return size + sum(map(_marks_bytes, figure.axes))


def _marks_bytes(axes: Axes) -> int:
    """The part of its ticks, points, shapes and lines."""
    import numpy as np

    both = (axes.xaxis, axes.yaxis)
    ticks = sum(len(one.get_majorticklocs()) + len(one.get_minorticklocs()) for one in both)
    marked = (line for line in axes.lines if line.get_marker() not in ("None", ""))
    points = sum(np.size(line.get_xdata()) for line in marked)
    lines = [line for line in axes.lines if line.get_linestyle() != "None"]
    drawn = sum(np.size(line.get_xdata()) for line in lines if not _is_stepped(line))
    offsets = (np.asarray(one.get_offsets()).reshape(-1, 2) for one in axes.collections)
    points += sum(len(places) for places in offsets)
    shapes = (path for one in axes.collections for path in one.get_paths())
    corners = sum(np.size(shape.vertices) // 2 for shape in shapes) + 5 * len(axes.patches)
    # A line in steps has two corners at each change.
    heights = (np.asarray(line.get_ydata(), dtype=float) for line in lines if _is_stepped(line))
    corners += sum(2 * int(np.count_nonzero(np.diff(each))) for each in heights)
    size = _TICK_BYTES * ticks + _POINT_BYTES * points
    return size + _CORNER_BYTES * corners + _LINE_BYTES * drawn


def _is_stepped(line: Line2D) -> bool:
    return line.get_drawstyle() != "default"


def _address(picture: Picture) -> str:
    kind, data = "svg+xml", picture.svg
    if _is_png(picture):
        kind, data = "png", picture.small or _few_colours(_opened(picture.png))
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def _pixels(figure: Figure) -> Image:
    """What its PNG shows."""
    import matplotlib as mpl
    from PIL import Image

    from edgebench.report.figures.style import figure_bytes

    inches, dpi = figure.get_size_inches(), mpl.rcParams["savefig.dpi"]
    size = int(inches[0] * dpi), int(inches[1] * dpi)
    return Image.frombytes("RGBA", size, figure_bytes(figure, ["rgba"])["rgba"])


def _opened(png: bytes) -> Image:
    from PIL import Image

    return Image.open(io.BytesIO(png))


def _few_colours(image: Image) -> bytes:
    """The picture as a PNG of few colours."""
    from PIL.Image import Quantize

    target = io.BytesIO()
    # An octree is made in a sixth of the time of the usual median cut; nobody sees the difference.
    image.convert("RGB").quantize(_COLOURS, Quantize.FASTOCTREE).save(target, "png")
    return target.getvalue()
