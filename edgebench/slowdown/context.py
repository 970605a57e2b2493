"""What is known of curves beside their times: layer tables, and their device's calibration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.errors import EdgebenchError
from edgebench.slowdown.calibration.device import load_calibration
from edgebench.slowdown.data import Curve
from edgebench.slowdown.model import Context

if TYPE_CHECKING:
    from edgebench.results.results import Results


def context_of(results: Results, curves: Sequence[Curve]) -> tuple[Context, list[str]]:
    """The tables of the results' networks, and the calibration kept beside the results.

    The second value says why there is no calibration, if there is none.
    """
    tables = results.tables
    kinds = {(c.settings.get("device"), c.settings.get("swap_kind")) for c in curves}
    if not tables or len(kinds) != 1:
        return Context(tables), []
    ((device, kind),) = kinds
    try:
        found = load_calibration(_root(results), str(device), str(kind))
    except EdgebenchError as error:
        return Context(tables), [str(error)]
    return Context(tables, found), []


def _root(results: Results) -> Path:
    """The folder that holds each device's folder."""
    return results.sweeps[0].path.resolve().parent.parent
