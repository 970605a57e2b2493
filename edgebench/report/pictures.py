"""The figures of a report as bytes, the same as ``edgebench plot`` draws."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from edgebench.report.content import Picture

if TYPE_CHECKING:
    from edgebench.results.results import Results

#: An SVG larger than this is embedded as PNG, which no number of points makes larger.
LARGEST_SVG = 160_000


def draw_pictures(results: Results) -> tuple[list[Picture], list[str]]:
    """Draw a report's figures; also return for each kind without one the reason."""
    from edgebench.report.figures.gallery import draw_figures
    from edgebench.report.figures.style import figure_bytes, figure_style

    left_out: list[str] = []
    pictures = []
    with figure_style():
        for stem, figure in draw_figures(results, left_out):
            # The figure's own title and subtitle.
            words = [text.get_text() for text in figure.texts[:2]]
            drawn = figure_bytes(figure)
            shows = ": ".join(filter(None, words)) or stem
            pictures.append(Picture(stem, shows, drawn["svg"], drawn["png"]))
    return pictures, left_out


def picture_address(picture: Picture) -> str:
    """Return a ``data:`` address that holds the whole image."""
    kind, data = "svg+xml", picture.svg
    if len(data) > LARGEST_SVG:
        kind, data = "png", picture.png
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
