"""Which form of the slowdown model is right: four of them, on the same folds.

``python benchmarks/model_forms.py [SWEEP…]`` (an hour the first time; what is simulated is kept)
predicts starts and steady rounds of the kept sweeps that were slowed 1.5 times or more, each by
what the others show. A form that is learnt is learnt in each fold anew. The test part is not read.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from claims.kept import figures, folder
from evaluation.cliff import Cliff
from evaluation.cross_validation import folds
from report import RESULTS, write

from edgebench.results.results import load
from edgebench.slowdown.calibration.device import Calibration
from edgebench.slowdown.context import CannotPredictError, Context, DeviceData, device_data
from edgebench.slowdown.counted import storage_costs
from edgebench.slowdown.curves import WHOLES, Curve, FloatArray
from edgebench.slowdown.models.conformal import conformity_scores
from edgebench.slowdown.models.device_costs import cost_rows, prior_costs
from edgebench.slowdown.models.interpolated import Interpolated, measured_points
from edgebench.slowdown.models.own_memory import OwnMemory, fit_own_memory
from edgebench.slowdown.models.simulated import _learnt
from edgebench.slowdown.models.unlimited_time import UnlimitedTimes, fit_unlimited_times
from edgebench.slowdown.simulator.computing import computing_s
from edgebench.slowdown.simulator.profile import device_for, profile, workload_for
from edgebench.slowdown.slowdown_function import SlowdownFunction, never_rising

SWEEPS = ("validation-one-thread", "validation-walk", "validation")
SLOWED, SHOWN_S = 1.5, 0.2
FITTED, COSTS, FORMULA, RATIO = "fitted", "calibrated", "formula", "ratio"
CLIFF, THROUGH = "cliff", "interpolated"
KNOWN, UNLIMITED, NEVER = "a limit left out", "unlimited known", "never run"
_DRAWS, _SEED = 2000, 39
Function = tuple[float, SlowdownFunction]
Forms = dict[str, Callable[[Curve], Function]]


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


class Simulated:
    """Simulated bytes at calibrated costs; steady rounds by the formula of counted bytes."""

    def __init__(
        self,
        curves: Sequence[Curve],
        context: Context,
        *,
        ratios: bool = False,
        formula: bool = True,
        unlimited: Sequence[Curve] = (),
    ) -> None:
        self._context, self._ratios, self._formula = context, ratios, formula
        self._unlimited = _phases(unlimited)
        self._times: UnlimitedTimes = fit_unlimited_times(curves, context)
        self._own: OwnMemory = fit_own_memory(curves, context)
        self._factors: dict[tuple[object, ...], float] = {}
        shown: dict[tuple[object, ...], dict[str, list[float]]] = defaultdict(dict)
        phases = _phases(curves)
        for curve in curves:
            if curve.phase in WHOLES and len(curve.limits) and len(curve.unlimited_seconds):
                found = self._factor(curve, phases)
                if found is not None:
                    shown[_kind(curve)].setdefault(curve.workload_network, []).append(found)
        for kind, own in shown.items():
            self._factors[kind] = float(np.median([np.median(one) for one in own.values()]))

    def function(self, curve: Curve) -> Function:
        """Unlimited seconds, and slowdowns."""
        phases = self._unlimited if len(curve.unlimited_seconds) else {}
        unlimited_s = self._times.seconds(curve, self._context)
        curve = self._own.with_demand(curve, self._context)
        at, added = self._added(curve, unlimited_s, phases)
        factor = self._factors.get(_kind(curve), 1.0) if self._learns(curve) else 1.0
        return unlimited_s, never_rising(at, np.log1p(factor * added / unlimited_s))

    def _learns(self, curve: Curve) -> bool:
        """Threads wait for one another where a declared speed holds the storage.

        As it is, a start writes more than scans show.
        """
        calibration = self._context.calibration
        held = calibration is not None and calibration.held is not None
        off = curve.settings.get("threads") != 1 if held else curve.phase != "total"
        return self._ratios or off

    def _factor(self, curve: Curve, phases: Mapping[tuple[str, str], Curve]) -> float | None:
        if not self._learns(curve):
            return None
        try:
            at, added = self._added(curve, curve.unlimited_s, phases)
        except CannotPredictError:
            return None
        here = np.interp(np.log(curve.limits), at, added)
        slowed = curve.medians >= SLOWED
        known = slowed & (here > (SLOWED - 1) * curve.unlimited_s / 2)
        seen = (curve.medians - 1) * curve.unlimited_s
        return float(np.median(seen[known] / here[known])) if known.any() else None

    def _added(
        self, curve: Curve, unlimited_s: float, phases: Mapping[tuple[str, str], Curve]
    ) -> tuple[FloatArray, FloatArray]:
        found = profile(curve, unlimited_s, self._context)
        work, device = workload_for(curve, self._context), device_for(curve, self._context)
        if curve.phase != "total" or work.overlaps or work.training or not self._formula:
            computing = computing_s(curve, unlimited_s, work, device)
            return found.ln_limit, found.io_s if work.overlaps else device.seconds(
                found.moved, computing
            )
        calibration = self._context.calibration or self._context.assumed
        assert calibration is not None
        costs = storage_costs(calibration)
        read = found.moved[1] * costs.swap_s + found.moved[3] * costs.mapped_s
        computing = self._computing(curve, phases) if costs.waits and device.held_in_s else 0.0
        return found.ln_limit, np.maximum(read - computing, 0.0)

    def _computing(self, curve: Curve, phases: Mapping[tuple[str, str], Curve]) -> float:
        parts = {"execute": int(curve.settings.get("warm") or 0)}
        if curve.settings.get("loader") != "mmap":
            parts["first"] = 1
        found = 0.0
        for phase, times in parts.items():
            own = phases.get((curve.trials_key, phase))
            own = own or replace(curve, phase=phase, unlimited_seconds=np.empty(0))
            try:
                found += times * self._times.seconds(own, self._context)
            except CannotPredictError:
                continue
        return found


def _phases(curves: Sequence[Curve]) -> dict[tuple[str, str], Curve]:
    return {(one.trials_key, one.phase): one for one in curves}


def _kind(curve: Curve) -> tuple[object, ...]:
    return curve.phase, curve.settings.get("loader"), curve.settings.get("threads")


def learnt_forms(
    curves: Sequence[Curve], context: Context, unlimited: Sequence[Curve] = ()
) -> Forms:
    """Each form that is learnt from curves of other networks, ready to be asked."""
    forms: Forms = {}
    try:
        rows, prior = cost_rows(curves, context), prior_costs(curves, context)
        learnt = _learnt(rows, curves, context, prior)
        forms[FITTED] = lambda curve: learnt.predict_corrected(curve, context)
    except CannotPredictError:
        pass
    for name, how in (
        (COSTS, {"formula": False}),
        (FORMULA, {}),
        (RATIO, {"ratios": True, "formula": False}),
    ):
        forms[name] = Simulated(curves, context, unlimited=unlimited, **how).function
    cliff = Cliff(curves, context)
    forms[CLIFF] = cliff.function
    return forms


_LIMITS = np.geomspace(8 << 20, 16 << 30, 400)


def points_of(sweep: str, data: DeviceData) -> Iterator[FormPoint]:
    """Every form's points of a device's data: a network's, by what the others show."""
    for fold in folds(data.curves):
        if fold.test and fold.test[0].split == "network":
            print(f"{sweep}: without {fold.left_out}", file=sys.stderr, flush=True)
            forms = learnt_forms(fold.training, data.context, data.curves)
            for curve in {id(point.curve): point.curve for point in fold.test}.values():
                if curve.phase in WHOLES:
                    yield from _of_curve(sweep, forms, curve)


def _of_curve(sweep: str, forms: Forms, curve: Curve) -> Iterator[FormPoint]:
    slowed = [
        (float(limit), float(slowdown))
        for limit, slowdown in zip(curve.limits, curve.medians, strict=True)
        if slowdown >= SLOWED
    ]
    told: list[tuple[str, str, float, float, float, float | None]] = []
    for use, bare in (
        (UNLIMITED, curve.unseen()),
        (NEVER, curve.unseen(with_unlimited=False)),
    ):
        for name, form in forms.items():
            try:
                unlimited_s, function = form(bare)
            except CannotPredictError:
                continue
            for limit, slowdown in slowed:
                at = np.array([limit])
                seen = np.array([slowdown * curve.unlimited_s / unlimited_s])
                score = float(conformity_scores(function, at, seen)[0])
                seconds = float(function.at(at)[0]) * unlimited_s
                told.append((use, name, limit, slowdown, seconds, score))
                known = curve.without(limit)
                if use == UNLIMITED and len(known.limits):
                    moved = function.through(*measured_points(known))
                    seconds = float(moved.at(at)[0]) * unlimited_s
                    score = float(conformity_scores(moved, at, np.array([slowdown]))[0])
                    told.append((KNOWN, name, limit, slowdown, seconds, score))
    own = Interpolated()
    for limit, slowdown in slowed:
        known = curve.without(limit)
        try:
            found = own.predict(
                own.fit([known], Context({})), known, np.array([limit]), Context({})
            )
        except CannotPredictError:
            continue
        seconds = float(found.slowdown[0]) * found.unlimited_s
        told.append((KNOWN, THROUGH, limit, slowdown, seconds, None))
    about = curve.settings.get("schedule"), curve.settings.get("loader")
    for use, name, limit, slowdown, seconds, score in told:
        yield FormPoint(
            sweep,
            use,
            name,
            f"{curve.workload_network} {about[0]} {about[1]}",
            curve.phase,
            limit,
            slowdown * curve.unlimited_s,
            seconds,
            slowdown,
            (slowdown - 1) * curve.unlimited_s,
            score,
        )


def other_device() -> Iterator[FormPoint]:
    """What was measured on another machine, told by its calibration and the sweep as is."""
    kept = figures("another_device")
    there = Calibration.from_json(kept["constants"])
    (data, *_), _ = device_data(load(folder("validation")))
    moved = replace(data.context, calibration=there)
    curves = [
        replace(c, settings={**c.settings, "device": there.device, "swap_kind": there.swap_kind})
        for c in data.curves
    ]
    asked: dict[str, Callable[[Curve], Function]] = {}
    for name, how in (
        (COSTS, {"formula": False}),
        (FORMULA, {}),
        (RATIO, {"ratios": True, "formula": False}),
    ):
        here = Simulated(data.curves, data.context, **how)
        form = Simulated((), moved, unlimited=curves, **how)
        form._factors = here._factors
        asked[name] = form.function
        plain = Simulated((), moved, unlimited=curves, **how)
        asked[f"{name}, no factor"] = plain.function
    cliff = Cliff(data.curves, data.context)
    cliff._context = moved
    asked[CLIFF] = cliff.function
    for point in kept["points"]:
        if point["measured"] < SLOWED:
            continue
        curve = next(
            c
            for c in curves
            if (c.network, c.phase, c.settings["schedule"], c.settings["loader"])
            == (point["network"], "total", "bulk", point["loader"])
        )
        limit = point["limit_mib"] * 2**20
        told = {FITTED: point["predicted"], "copied": point["as_here"]}
        for name, form in asked.items():
            _, function = form(curve.unseen())
            told[name] = float(function.at(np.array([limit]))[0])
        for name, factor in told.items():
            yield FormPoint(
                "another device",
                "other device: factor",
                name,
                f"{curve.network} bulk {point['loader']}",
                "total",
                limit,
                point["measured"],
                factor,
                point["measured"],
                point["measured_s"] * (1 - 1 / point["measured"]),
            )


def table(points: Sequence[FormPoint], baseline: str = FITTED) -> Iterator[tuple[str, ...]]:
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
    wanted = sys.argv[1:] or [*SWEEPS, "device"]
    file = RESULTS / "model_forms.json"
    kept = json.loads(file.read_text())["data"] if file.exists() else {}
    for name in wanted:
        if name == "device":
            found = [*other_device()]
        else:
            found = [
                p for data in device_data(load(folder(name)))[0] for p in points_of(name, data)
            ]
        kept[name] = [asdict(one) for one in found]
        points = [FormPoint(**row) for rows in kept.values() for row in rows]
        header = (
            *("sweep", "use", "phase", "form", "points", "workloads"),
            *("error", "90 % interval", "less `fitted`"),
        )
        says = "Median error of seconds at points slowed 1.5 times or more, on the same folds."
        write("model_forms", says, header, list(table(points)), {})
        # One row a line takes half as much room.
        file.write_text(json.dumps({"data": kept}, separators=(",", ":"), allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
