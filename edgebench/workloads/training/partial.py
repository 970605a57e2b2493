"""Which part of a network is trained: all, none, its last layer, or layers or filters by chance.

As in Agarwal et al., "Performance Analysis of Machine Learning Model Training on Low Power
Devices", what is drawn by chance is drawn again at each step.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: What may be trained; the last two with a share, as ``layers 40%``.
WHOLE, NOTHING, LAST, LAYERS, FILTERS = "all", "none", "last", "layers", "filters"
_SHARED = re.compile(rf"({LAYERS}|{FILTERS}) (\d+(?:\.\d+)?)%")


@dataclass(frozen=True)
class TrainedPart:
    """Which part: one of the words above, and of layers or filters how large a share."""

    kind: str
    share: float = 1.0


def parse_part(text: str) -> TrainedPart:
    """``all``, ``none``, ``last``, ``layers 40%`` or ``filters 40%``.

    Raises:
        ValueError: it is none of these; says how to write it.
    """
    if text in (WHOLE, NOTHING, LAST):
        return TrainedPart(text)
    match = _SHARED.fullmatch(text)
    if not match:
        raise ValueError(
            f"{text!r} is no part of a network; "
            'write "all", "none", "last", "layers 40%" or "filters 40%"'
        )
    share = float(match[2]) / 100
    if not 0 < share <= 1:
        raise ValueError(f"{text!r} is no share; give more than 0 % and at most 100 %")
    return TrainedPart(match[1], share)


def checked_part(text: str) -> str:
    """The text itself, if it names a part.

    Raises:
        ValueError: as :func:`parse_part`.
    """
    parse_part(text)
    return text
