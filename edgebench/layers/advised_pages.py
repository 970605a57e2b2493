"""What the kernel is told, at the borders of layers, about weights that are mapped from files.

``sequential``: they are read in order. ``willneed``: the next layer's are wanted soon. ``cold``:
those of the layer before go first when memory is short. ``pageout``: they go at once (madvise(2)).
"""

from __future__ import annotations

from collections.abc import Callable

from edgebench.layers.cut import Call
from edgebench.layers.network import LayeredNetwork
from edgebench.layers.page_advice import (
    PageRange,
    drop,
    expect_in_sequence,
    let_go_first,
    pages_of,
    read_ahead,
)

_AFTER: dict[str, Callable[[PageRange], None]] = {"cold": let_go_first, "pageout": drop}


class AdvisedPages:
    """The weights of a network that is loaded.

    Args:
        advice: which; None: the kernel is told nothing.
        network: all its parts are mapped.
    """

    def __init__(self, advice: str | None, network: LayeredNetwork) -> None:
        self._advice = advice
        calls = network.calls if advice else ()
        self._pages = {one.order: pages_of(one.part.tensors().values()) for one in calls}
        if advice == "sequential":
            self._tell(expect_in_sequence, *self._pages)

    def before(self, call: Call) -> None:
        """A layer is about to be executed."""
        if self._advice == "willneed":
            self._tell(read_ahead, call.order + 1)

    def after(self, call: Call) -> None:
        """It has been."""
        if tell := _AFTER.get(self._advice or ""):
            self._tell(tell, call.order)

    def _tell(self, tell: Callable[[PageRange], None], *orders: int) -> None:
        for order in orders:
            for pages in self._pages.get(order, ()):
                tell(pages)
