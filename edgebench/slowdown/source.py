"""Where an answer is from."""

from __future__ import annotations

from enum import Enum


class Source(str, Enum):
    """How what happens at a limit is known, the surest first."""

    #: Trials ran at the limit.
    MEASURED = "measured"
    #: Trials ran at tighter and wider limits.
    BETWEEN = "between measured limits"
    #: The bytes that its rounds read again were counted; on any storage.
    COUNTED = "counted bytes"
    #: The pages that its steady rounds use were counted.
    WORKING_SET = "working set"
    #: It follows from the sizes in its layer table.
    LAYER_TABLE = "layer table"
