"""How many rounds a worker runs: as many as the scenario says, or until the harness ends a walk.

In a walk the harness moves the memory limit between rounds. Before each round the worker says that
it is ready and waits for the answer, so nothing of the control happens within a round.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

#: What the worker writes before a round, and what the harness answers; any other answer, and the
#: end of the connection, is the end of the rounds.
READY, GO, STOP = b"r", b"g", b"s"


def round_numbers(count: int, control: int | None) -> Iterator[int]:
    """The numbers of the rounds to run, from 0.

    Args:
        count: how many, where nobody controls them.
        control: the descriptor of the harness's control of rounds; None: it has none.
    """
    for number in itertools.count() if control is not None else range(count):
        if control is not None:
            os.write(control, READY)
            if os.read(control, 1) != GO:
                return
        yield number
