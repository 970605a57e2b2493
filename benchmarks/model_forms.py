"""Which form of the slowdown model is right, on the same folds; and how right the one kept is.

``python benchmarks/model_forms.py [SWEEP…]`` (minutes the first time; what is simulated is
kept) predicts starts and steady rounds of the kept sweeps that were slowed 1.5 times or more, each
network by what the others show. What is learnt is learnt in each fold anew. The test part is not
read.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from claims.kept import folder
from evaluation.cliff import Cliff
from report import RESULTS, write

from edgebench.parallel import begun_in_parallel
from edgebench.results.results import load
from edgebench.slowdown.context import CannotPredictError, Context, DeviceData, device_data
from edgebench.slowdown.curves import WHOLES, Curve
from edgebench.slowdown.models.interpolated import Interpolated, measured_points
from edgebench.slowdown.models.intervals import SLOWED, conformity_scores
from edgebench.slowdown.models.simulated import learn
from edgebench.slowdown.slowdown_function import SlowdownFunction

SWEEPS = ("validation-one-thread", "validation-two-threads", "validation")
SIMULATED, CLIFF, THROUGH = "simulated", "cliff", "interpolated"
KNOWN, UNLIMITED, NEVER = "a limit left out", "unlimited known", "never run"
_DRAWS, _SEED = 2000, 39
Form = Callable[[Curve], tuple[float, SlowdownFunction]]


@dataclass(frozen=True)
class FormPoint:
    """What a form says of a point.

    Attributes:
        sweep, use, form: where, what was known, and which.
        workload, phase, limit_bytes: which point.
        measured_s, predicted_s: seconds.
        slowdown: as measured.
        added_s: what the limit added, as measured.
        score: the least reach of an interval that holds it; None: not known.
    """

    sweep: str
    use: str
    form: str
    workload: str
    phase: str
    limit_bytes: float
    measured_s: float
    predicted_s: float
    slowdown: float
    added_s: float
    score: float | None = None

    @property
    def error(self) -> float:
        """As a share, without its sign."""
        return abs(self.predicted_s / self.measured_s - 1)


def learnt_forms(curves: Sequence[Curve], context: Context) -> dict[str, Form]:
    """Each form that is learnt from curves of other networks, ready to be asked."""
    learnt, cliff = learn(curves, context), Cliff(curves, context)
    return {SIMULATED: lambda curve: learnt.predict(curve, context), CLIFF: cliff.function}


def points_of(sweep: str, data: DeviceData) -> list[FormPoint]:
    """Every form's points of a device's data: a network's, by what the others show."""
    networks = sorted({curve.workload_network for curve in data.curves if len(curve.limits)})
    with begun_in_parallel(lambda network: _of_network(sweep, network, data), networks) as begun:
        return [point for points in begun() for point in points]


def _of_network(sweep: str, network: str, data: DeviceData) -> list[FormPoint]:
    print(f"{sweep}: without {network}", file=sys.stderr, flush=True)
    own, others = [], []
    for curve in data.curves:
        (own if curve.workload_network == network else others).append(curve)
    forms = learnt_forms(others, data.context)
    asked = [curve for curve in own if curve.phase in WHOLES and len(curve.limits)]
    return [point for curve in asked for point in _of_curve(sweep, forms, curve)]


def _of_curve(sweep: str, forms: dict[str, Form], curve: Curve) -> Iterator[FormPoint]:
    about = curve.workload_network, curve.settings.get("schedule"), curve.settings.get("loader")
    workload = " ".join(filter(None, about))
    unlimited_s = curve.unlimited_s
    pairs = zip(curve.limits.tolist(), curve.medians.tolist(), strict=True)
    for limit, slowdown in ((limit, factor) for limit, factor in pairs if factor >= SLOWED):
        for use, form, said_s, function in _told(forms, curve, limit):
            at, seen = np.array([limit]), np.array([slowdown * unlimited_s / said_s])
            score = float(conformity_scores(function, at, seen)[0])
            yield FormPoint(
                *(sweep, use, form, workload, curve.phase, limit, slowdown * unlimited_s),
                *(float(function.at(at)[0]) * said_s, slowdown),
                *((slowdown - 1) * unlimited_s, score),
            )


def _told(
    forms: dict[str, Form], curve: Curve, limit: float
) -> Iterator[tuple[str, str, float, SlowdownFunction]]:
    """By use and form: unlimited seconds, and slowdowns."""
    known, bare = curve.without(limit), curve.unseen(with_unlimited=False)
    for name, form in forms.items():
        for use, asked in ((UNLIMITED, curve.unseen()), (NEVER, bare)):
            try:
                said_s, function = form(asked)
            except CannotPredictError:
                continue
            yield use, name, said_s, function
            if use == UNLIMITED and len(known.limits):
                yield KNOWN, name, said_s, function.through(*measured_points(known))
    try:
        fine = np.geomspace(curve.limits[0] / 2, 2 * curve.limits[-1], 400)
        fine = np.union1d(fine, [limit])
        found = Interpolated.of(known).predict(known, fine)
    except CannotPredictError:
        return
    function = SlowdownFunction(np.log(fine), np.log(found.slowdown))
    yield KNOWN, THROUGH, found.unlimited_s, function


def _short(value: object) -> object:
    """A number's six digits: the file stays small, and points of all forms meet at one limit."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def table(points: Sequence[FormPoint], baseline: str = SIMULATED) -> Iterator[tuple[str, ...]]:
    """A row a sweep, use, phase and form: error, interval over workloads, paired difference.

    The error is the median over workloads of the median of their points.
    """
    random = np.random.default_rng(_SEED)
    groups: dict[tuple[str, str, str], list[FormPoint]] = defaultdict(list)
    for one in points:
        groups[one.sweep, one.use, one.phase].append(one)
    for key, own in groups.items():
        by_form: dict[str, dict[tuple[str, float], float]] = defaultdict(dict)
        for one in own:
            by_form[one.form][one.workload, one.limit_bytes] = one.error
        base = by_form.get(baseline, {})
        for form, found in by_form.items():
            both = sorted(found.keys() & base.keys()) if base else sorted(found)
            works = sorted({work for work, _ in both})
            if not works:
                continue
            pairs = np.array(
                [
                    [
                        np.median([of[k] for k in both if k[0] == work])
                        for of in (found, base or found)
                    ]
                    for work in works
                ]
            )
            some = random.integers(0, len(works), (_DRAWS, len(works)))
            draws = np.median(pairs[some], axis=1)
            low, high = 100 * np.quantile(draws[:, 0], [0.05, 0.95])
            less, more = 100 * np.quantile(draws[:, 0] - draws[:, 1], [0.05, 0.95])
            yield (
                *(*key, form, str(len(both)), str(len(works))),
                f"{100 * np.median(pairs[:, 0]):.1f} %",
                f"{low:.1f} to {high:.1f}",
                "-" if form == baseline else f"{less:+.1f} to {more:+.1f}",
            )


def main() -> None:
    """Predict, and write."""
    file = RESULTS / "model_forms.json"
    for name in sys.argv[1:] or SWEEPS:
        kept = json.loads(file.read_text())["data"] if file.exists() else {}
        results = load(folder(name))
        found = [p for data in device_data(results)[0] for p in points_of(name, data)]
        kept[name] = [{key: _short(v) for key, v in vars(p).items()} for p in found]
        points = [FormPoint(**row) for rows in kept.values() for row in rows]
        header = (
            *("sweep", "use", "phase", "form", "points", "workloads"),
            *("error", "90 % interval", "less `simulated`"),
        )
        says = "Median error of seconds at points slowed 1.5 times or more, on the same folds."
        write("model_forms", says, header, list(table(points)), {})
        # Without line breaks it takes half as much room.
        file.write_text(json.dumps({"data": kept}, separators=(",", ":"), allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
