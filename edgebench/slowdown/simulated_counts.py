"""What was simulated, kept on disk: the same question is never simulated twice."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt

from edgebench.cache import KeptAnswers

FloatArray = npt.NDArray[np.float64]
_KEPT = KeptAnswers(
    "simulated-counts",
    ("slowdown/simulator",),
    ("numpy",),
)


def kept_counts(
    question: tuple[object, ...], shape: tuple[int, ...], simulate: Callable[[], FloatArray]
) -> FloatArray:
    """The array that answers a question: kept by an earlier call, else simulated now and kept.

    Args:
        question: all that the answer follows from, beside the simulator's own code: numbers, texts
            and dataclasses of these.
        shape: the answer's.
        simulate: gives the answer.
    """
    asked = msgspec.json.encode(question)
    kept = _KEPT.find(asked)
    # Under sudo the files are the caller's, who may have put anything there.
    if kept is not None and len(kept) == 8 * int(np.prod(shape)):
        return np.frombuffer(kept, dtype="<f8").astype(np.float64).reshape(shape)
    found = simulate()
    _KEPT.keep(asked, found.astype("<f8").tobytes())
    return found
