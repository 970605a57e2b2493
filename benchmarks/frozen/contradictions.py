"""Where verbs contradict each other about the same workload and limit of a kept sweep.

    python benchmarks/frozen/contradictions.py [--sweep PART] [--json]

``show`` is what was measured: how trials ended, and the slowdown. Compared with it:

- ``predict`` at each measured limit: how many trials finished, and the slowdown of a whole pass;
- ``fit``: the slowdown at each measured limit.

A report has the rows of ``show``.

Exits with 1 at a contradiction.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.frozen import freeze
from edgebench.errors import EdgebenchError
from edgebench.results.facts import PointFacts, WorkloadFacts, sweep_facts
from edgebench.results.results import load
from edgebench.slowdown.curves import curves

#: Slowdowns that differ by no more than this share are the same.
SAME = 1e-3


@dataclass(frozen=True)
class Contradiction:
    """Two verbs about one thing. ``limit``: as it was asked for; empty: of all limits."""

    sweep: str
    workload: str
    limit: str
    about: str
    one: str
    other: str


def contradictions(sweep: Path) -> Iterator[Contradiction]:
    """Those of one sweep."""
    name = sweep.name.split("-", 1)[1]
    measured = sweep_facts(load(sweep).sweeps[0]).workloads
    predicted = _predictions(sweep, measured)
    for one in measured:
        for point in one.tried:
            label = point.limits.label
            for about, first, second in _predicted(one, point, predicted):
                yield Contradiction(name, one.name, label, about, first, second)
    yield from _slowdowns_of_fits(sweep, name, measured)


def _predictions(sweep: Path, measured: Sequence[WorkloadFacts]) -> list[dict[str, Any]]:
    """Each network's, at every limit that is measured of any of its workloads."""
    limits: dict[str, set[int]] = {}
    for one in measured:
        tried = (p.limit_bytes or p.limits.memory_bytes for p in one.tried)
        sizes = {size for size in tried if size}
        limits.setdefault(_network(one.settings), set()).update(sizes)
    found = []
    for network, sizes in limits.items():
        if not network or not sizes:
            continue
        words = [word for size in sorted(sizes) for word in ("--memory", str(size))]
        found += freeze.said("predict", network, "--results", sweep, *words).get("predictions", [])
    return found


def _network(settings: Mapping[str, Any]) -> str:
    return "+".join(settings.get("networks") or ()) or str(settings.get("network") or "")


def _predicted(
    workload: WorkloadFacts, point: PointFacts, predictions: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str, str]]:
    size = point.limit_bytes or point.limits.memory_bytes
    for one in predictions:
        if one["workload_id"] != workload.key.id:
            continue
        for at in one["at"]:
            if size and abs(at["limit_bytes"] - size) < 1 and at["ended"]:
                yield from _at(point, at)


def _at(point: PointFacts, at: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What was measured is not predicted: the same trials, the same slowdown."""
    finished = point.outcomes.get("ok", 0)
    if at["finished"] != finished:
        yield "finishes", f"show: {finished}", f"predict: {at['finished']}"
    slower = [phase["slowdown"] for phase in at["phases"] if phase["phase"] == "total"]
    seen = point.slowdowns.get("total")
    if seen and slower and abs(slower[0] / seen - 1) > SAME:
        yield "slowdown", f"show: {seen:.3g}", f"predict: {slower[0]:.3g}"


def _slowdowns_of_fits(
    sweep: Path, name: str, measured: Sequence[WorkloadFacts]
) -> Iterator[Contradiction]:
    """What is fitted of whole rounds is what is shown."""
    try:
        found = curves(load(sweep))
    except EdgebenchError:
        return
    wholes = {one.workload: one for one in found if one.phase == "total"}
    for one in measured:
        curve = wholes.get(one.key.id)
        for point in one.tried if curve else ():
            seen, size = point.slowdowns.get("total"), point.limit_bytes
            fitted = (
                dict(zip(curve.limits, curve.medians, strict=True)).get(size) if curve else None
            )
            if seen and fitted and abs(fitted / seen - 1) > SAME:
                words = f"show: {seen:.3g}", f"fit: {fitted:.3g}"
                yield Contradiction(name, one.name, point.limits.label, "slowdown", *words)


def main() -> int:
    """Print them; 1 if there are any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sweep", action="append", help="only sweeps whose name holds this")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    count = 0
    for sweep in sorted(freeze.KEPT.iterdir()):
        if not sweep.is_dir() or (asked.sweep and not any(p in sweep.name for p in asked.sweep)):
            continue
        for one in contradictions(sweep):
            count += 1
            words = f"{one.sweep}, {one.workload} {one.limit}: {one.about}: {one.one}; {one.other}"
            print(json.dumps(asdict(one)) if asked.json else words)
            sys.stdout.flush()
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
