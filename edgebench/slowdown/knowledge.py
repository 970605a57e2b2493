"""What is known when something is predicted: curves, layer tables, the device's constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from edgebench.slowdown.context import context_of
from edgebench.slowdown.data import Curve, curves
from edgebench.slowdown.model import Context

if TYPE_CHECKING:
    from edgebench.results.results import Results


@dataclass(frozen=True)
class Knowledge:
    """Curves of one device with one kind of swap, and what else is known there."""

    device: str
    swap_kind: str
    curves: tuple[Curve, ...]
    context: Context

    def with_tables(self, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> Knowledge:
        """The same, knowing these networks' layer tables too."""
        known = {**self.context.tables, **tables}
        return replace(self, context=replace(self.context, tables=known))


def knowledge(results: Results) -> tuple[list[Knowledge], list[str]]:
    """What results tell of each device and kind of swap; and, in words, what is lacking.

    Raises:
        ResultsError: no curve, with the reason.
    """
    groups: dict[tuple[str, str], list[Curve]] = {}
    for curve in curves(results):
        about = str(curve.settings["device"]), str(curve.settings.get("swap_kind", "none"))
        groups.setdefault(about, []).append(curve)
    found, lacking = [], []
    for (device, kind), own in groups.items():
        context, why = context_of(results, own)
        found.append(Knowledge(device, kind, tuple(own), context))
        lacking += why
    return found, lacking
