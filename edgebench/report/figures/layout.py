"""The layout of a figure: once for all formats, the same in every process."""

from __future__ import annotations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter

#: Of PNG files.
DPI = 150


def lay_out(figure: Figure) -> None:
    """Lay the figure out once, for all formats, and round where things stand.

    The layout's solver differs in the last bits from one process to another, which shows in SVG.
    """
    if not isinstance(engine := figure.get_layout_engine(), ConstrainedLayoutEngine):
        return
    _take_literally(figure)
    for artist in (a for x in figure.axes for a in (*x.lines, *x.collections, *x.patches)):
        # What is cut off at the axes takes no room outside; to measure it takes long.
        artist.set_in_layout(not artist.get_clip_on())
    for axis in (one for axes in figure.axes for one in (axes.xaxis, axes.yaxis)):
        if not axis.label.get_text():
            # Else a place beyond all ticks is found for it, each time that the axis is looked at.
            axis.set_label_coords(0.5, 0.5)
    # By the renderer of a PNG, which then knows the size of each text.
    FigureCanvasAgg(figure)
    dpi, figure.dpi = figure.dpi, DPI
    engine.execute(figure)
    figure.dpi = dpi
    # Not "none", which leaves an engine that has every format drawn twice.
    figure.set_layout_engine(None)
    for axes in figure.axes:
        x, y, width, height = (round(value, 6) for value in axes.get_position().bounds)
        axes.set_position((x, y, width, height))


def _take_literally(figure: Figure) -> None:
    """A $ in a name begins no formula; only the labels that matplotlib gives to numbers do."""
    numbers = {
        label
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        if not isinstance(axis.get_major_formatter(), FixedFormatter)
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
        for label in (tick.label1, tick.label2)
    }
    for text in figure.findobj(Text):
        if isinstance(text, Text) and text not in numbers:
            text.set_parse_math(False)
