"""What of a figure is worked out once while it is laid out and drawn, not at each look at it.

matplotlib places the ticks of an axis about ten times for one picture, and looks up the height of
the font for each text as often. Nothing of that changes once a figure is complete. To each tick it
makes it copies all looks of the first one, most of which it was made with anyway. Where a later
matplotlib has other names for this, it is all done as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from matplotlib.axis import Axis, Tick
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, NullLocator

_TICKS, _COPY, _LAYOUT = "_update_ticks", "_copy_tick_props", "_get_layout"


@contextmanager
def held(figure: Figure) -> Iterator[list[Text]]:
    """Inside, nothing of the figure changes but where axes stand and how large a pixel is.

    Gives its texts, those of ticks among them; none if it is held already.
    """
    axes_axis = [one for axes in figure.axes for one in (axes.xaxis, axes.yaxis)]
    if any(_TICKS in vars(axis) for axis in axes_axis):
        yield []
        return
    with ExitStack() as stack:
        for axis in axes_axis:
            _replace(stack, axis, _TICKS, _held_ticks)
            _replace(stack, axis, _COPY, lambda *_: _clip_grid)
            if isinstance(axis.get_minor_locator(), NullLocator):
                # Else one is made, which is never drawn.
                _replace(stack, axis, "minorTicks", lambda *_: [])
        # This makes the ticks.
        texts = [one for one in figure.findobj(Text) if isinstance(one, Text)]
        for text in texts:
            _replace(stack, text, _LAYOUT, _held_layout)
        yield texts


def _replace(stack: ExitStack, artist: Any, name: str, another: Callable[[Any, Any], Any]) -> None:
    """Until the stack ends this artist has another method of this name, if it has one at all."""
    if hasattr(type(artist), name) and name not in vars(artist):
        method = None if name == "minorTicks" else getattr(artist, name)
        vars(artist)[name] = another(artist, method)
        stack.callback(vars(artist).pop, name, None)


def _clip_grid(first: Tick, tick: Tick) -> None:
    """Copies from the first tick of an axis what a tick is not made with."""
    tick.gridline.set_clip_box(first.gridline.get_clip_box())
    tick.gridline.set_clip_path(first.gridline.get_clip_path())


def _held_ticks(axis: Axis, make: Callable[[], Any]) -> Callable[[], Any]:
    """The ticks in view; made anew where they follow from the room for them, when that changes."""
    locators = (axis.get_major_locator(), axis.get_minor_locator())
    fixed = all(isinstance(one, FixedLocator | NullLocator) for one in locators)
    known: dict[int, Any] = {}

    def ticks() -> Any:
        room = 0 if fixed else axis.get_tick_space()
        if room not in known:
            known.clear()
            known[room] = make()
        return known[room]

    return ticks


def _held_layout(text: Text, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The lines of a text and their sizes, anew for other words or another renderer."""
    known: list[Any] = []

    def layout(renderer: Any) -> Any:
        figure = text.get_figure(root=True)
        key = [renderer, text.get_text(), figure.dpi if figure else None]
        if not known or known[0] != key:
            known[:] = [key, make(renderer)]
        return known[1]

    return layout
