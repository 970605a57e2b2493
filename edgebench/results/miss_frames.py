"""The frame of miss curves: a row for each workload, limit and direction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from edgebench.results.miss_curve import MissCurve

_CURVE = ("plateau_bytes", "knee_bytes", "knee_low_bytes", "knee_high_bytes", "unlimited_bytes")
_POINT = (
    *("limit_bytes", "direction", "round_bytes", "spread_bytes", "out_bytes", "faults", "rounds"),
    *("visits", "confirmed", "agree"),
)
MISS_COLUMNS = ("workload", "settings", *_POINT, *_CURVE, "knee_direction", "knee_missing")


def misses_frame(curves: Iterable[MissCurve]) -> pd.DataFrame:
    """One row per point; a curve without points has none."""
    rows = [row for curve in curves for row in _rows(curve)]
    frame = pd.DataFrame(rows, columns=list(MISS_COLUMNS))
    counts = ("limit_bytes", *_POINT[2:-2], *_CURVE)
    frame = frame.astype(dict.fromkeys(counts, "float64"))
    return frame.astype({"confirmed": "bool", "agree": "bool"})


def _rows(curve: MissCurve) -> Iterator[dict[str, Any]]:
    low, high = curve.knee_between or (None, None)
    about = {
        "workload": curve.workload.id,
        "settings": curve.workload.settings,
        "plateau_bytes": curve.plateau_bytes,
        "knee_bytes": curve.knee_bytes,
        "knee_low_bytes": low,
        "knee_high_bytes": high,
        "unlimited_bytes": curve.unlimited_bytes,
        "knee_direction": curve.direction,
        "knee_missing": curve.missing,
    }
    for point in curve.points:
        yield {**about, **{name: getattr(point, name) for name in _POINT}}
