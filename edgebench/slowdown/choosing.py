"""Which device's knowledge, with which kind of swap, a prediction is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgebench.errors import ResultsError, UsageError
from edgebench.slowdown.calibration.device import load_calibration
from edgebench.slowdown.data import Curve
from edgebench.slowdown.knowledge import Knowledge, knowledge
from edgebench.slowdown.splits import unseen

if TYPE_CHECKING:
    from edgebench.results.results import Results


def choose(
    results: Results, device: str | None = None, swap_kind: str | None = None
) -> tuple[Knowledge, list[str]]:
    """The knowledge asked for, and what it lacks, in words.

    Without a kind of swap it is the one that most curves are of. A kind that nothing was run with
    is known from its calibration alone: what carries over is unlimited times and layer tables.

    Raises:
        UsageError: several devices, and none was named.
        ResultsError: nothing of that device, or no curve at all.
        MachineError: the device was not calibrated with that kind of swap.
    """
    found, lacking = knowledge(results)
    own = _of_device(found, device)
    most = max(own, key=lambda known: len(known.curves))
    matching = [known for known in own if known.swap_kind == (swap_kind or most.swap_kind)]
    if matching:
        return matching[0], lacking
    assert swap_kind is not None
    root = results.sweeps[0].path.resolve().parent.parent
    calibration = load_calibration(root, most.device, swap_kind)
    curves = tuple(_carried_over(curve, swap_kind) for curve in most.curves)
    context = replace(most.context, calibration=calibration)
    return Knowledge(most.device, swap_kind, curves, context), []


def _of_device(found: Sequence[Knowledge], device: str | None) -> list[Knowledge]:
    devices = sorted({known.device for known in found})
    if device is None and len(devices) > 1:
        raise UsageError(
            f"results of {len(devices)} devices, and constants of one say nothing of another",
            remedy=f"name one with --device: {', '.join(devices)}",
        )
    own = [known for known in found if device in (None, known.device)]
    if not own:
        raise ResultsError(
            f"no results of device {device!r} here, and another's say nothing of it",
            remedy=f"known here: {', '.join(devices)}; or: edgebench run quickstart",
        )
    return own


def _carried_over(curve: Curve, swap_kind: str) -> Curve:
    """What of a curve holds with another swap: its unlimited times."""
    kept = {k: v for k, v in curve.settings.items() if k != "swap_bytes"}
    return replace(unseen(curve), settings={**kept, "swap_kind": swap_kind})
