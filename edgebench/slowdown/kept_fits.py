"""Fits to many curves, kept on disk: they cost as much as all their curves' simulations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import msgspec
import numpy as np

from edgebench.cache import KeptAnswers
from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.models.base import Fit, Model
from edgebench.slowdown.simulator.workload import is_training

#: What layer tables of trainings follow from, beside settings, is code and libraries.
_KEPT = KeptAnswers(
    "fits",
    ("slowdown", "layers", "workloads/training"),
    ("numpy", "scipy", "torch", "torchvision"),
    most_bytes=128 << 20,
)


def kept_fit(model: Model, curves: Sequence[Curve], context: Context) -> Fit:
    """The model's fit to these curves: kept by an earlier call, else fitted now and kept.

    Raises:
        CannotPredictError: it can't be fitted.
    """
    question = msgspec.json.encode([model.name, list(map(_curve, curves)), _known(curves, context)])
    kept = _KEPT.find(question)
    if kept is not None:
        try:
            answer = msgspec.json.decode(kept, type=Fit | str)
        except msgspec.MsgspecError:
            # Under sudo the files are the caller's, who may have put anything there.
            answer = None
        if isinstance(answer, str):
            raise CannotPredictError(answer)
        if answer is not None:
            return answer
    try:
        found = model.fit(curves, context)
    except CannotPredictError as error:
        _KEPT.keep(question, msgspec.json.encode(str(error)))
        raise
    _KEPT.keep(question, msgspec.json.encode(found))
    return found


def _curve(curve: Curve) -> dict[str, Any]:
    """All that a curve holds, as JSON has it."""
    values = {field.name: getattr(curve, field.name) for field in fields(curve)}
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values.items()}


def _known(curves: Sequence[Curve], context: Context) -> list[object]:
    """What of the context a fit follows from; tables of other networks change nothing."""
    names = {name for c in curves if not is_training(c.settings) for name in _networks(c)}
    tables = {name: context.tables[name] for name in sorted(names) if name in context.tables}
    return [tables, context.calibration, context.assumed, context.base_bytes]


def _networks(curve: Curve) -> list[str]:
    return curve.workload_network.split("+")
