"""Unlimited times, from a network's own few trials and from the rates of other networks.

Unlimited trials are few, and a machine has slow minutes. Times from the rates of other networks
(:mod:`~edgebench.slowdown.simulator.cpu_time`) are off too, but for other reasons. So the two
are mixed, in the proportion that best predicts trials at limits above the demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.curves import Curve, FloatArray
from edgebench.slowdown.models.base import Fit, Parameter
from edgebench.slowdown.simulator.cpu_time import Rates, fit_rates, predicted_s
from edgebench.slowdown.simulator.profile import inference_for
from edgebench.slowdown.simulator.workload import Workload
from edgebench.slowdown.splits import workload_network

#: Parts that rates may have in a mixture.
_SHARES = np.linspace(0.0, 0.7, 8)
#: The largest difference of times by rates from measured ones that counts.
_MOST = 0.5
_OFF, _SHARE = "off.", "rates' share"
_RATES = ("file_s", "load_byte_s", "call_s", "flop_s", "byte_s")
_NO_TIME = "no unlimited trial of it, nor of other networks to learn from"
#: A workload of one network, a phase, and its unlimited seconds a pass.
_Time = tuple[Workload, str, float]


@dataclass(frozen=True)
class UnlimitedTimes:
    """How unlimited times are computed.

    Attributes:
        rates: of all networks; None if too few are known.
        off: for each kind of curve the median of ln(by rates / measured).
        share: the part of the rates where a measured time is known, of its logarithm.
    """

    rates: Rates | None
    off: Mapping[str, float] = field(default_factory=dict)
    share: float = 0.0

    def seconds(self, curve: Curve, context: Context) -> float:
        """The unlimited time of a curve.

        Raises:
            CannotPredictError: it has no unlimited trial, and no rates are known.
        """
        by_rates = _by_rates(curve, self.rates, _workload(curve, context))
        if by_rates is not None:
            by_rates -= self.off.get(_kind(curve), 0.0)
        if not len(curve.unlimited_seconds):
            if by_rates is None:
                raise CannotPredictError(_NO_TIME)
            return float(np.exp(by_rates))
        measured = float(np.log(curve.unlimited_s))
        shift = 0.0 if by_rates is None else float(np.clip(by_rates - measured, -_MOST, _MOST))
        return float(np.exp(measured + self.share * shift))

    def parameters(self) -> Iterable[Parameter]:
        """All but the rates, as a fit keeps them."""
        yield Parameter(_SHARE, self.share, fixed=True)
        for kind, off in self.off.items():
            yield Parameter(_OFF + kind, off, fixed=True)


def unlimited_times_in(fit: Fit) -> UnlimitedTimes:
    """The unlimited times that a fit keeps."""
    kept = {p.name: p.value for p in fit.parameters}
    off = {n.removeprefix(_OFF): value for n, value in kept.items() if n.startswith(_OFF)}
    return UnlimitedTimes(_rates_in(fit), off, kept.get(_SHARE, 0.0))


def fit_unlimited_times(
    curves: Sequence[Curve], context: Context
) -> tuple[UnlimitedTimes, tuple[Parameter, ...]]:
    """The unlimited times fitted to curves, and the parameters that keep them, rates included."""
    known = [curve for curve in curves if len(curve.unlimited_seconds)]
    rates = fit_network_rates(known, context)
    by_rates = _left_out(known, context)
    off = {
        kind: float(np.median([d for curve, d in by_rates if _kind(curve) == kind]))
        for kind in sorted({_kind(curve) for curve, _ in by_rates})
    }
    found = UnlimitedTimes(rates, off, _share(by_rates, off))
    return found, (*rate_parameters(rates), *found.parameters())


def _network_times(curves: Iterable[Curve], context: Context) -> list[tuple[str, _Time]]:
    """What rates are fitted to: names and unlimited times of networks that ran alone."""
    known = []
    for curve in curves:
        if curve.phase in ("load", "first", "execute") and len(curve.unlimited_seconds):
            try:
                work = inference_for(curve, context)
            except CannotPredictError:
                continue
            if len(work.networks) == 1 and work.loader == "copy":
                known.append((work.networks[0], (work, curve.phase, curve.unlimited_s)))
    return known


def rate_parameters(rates: Rates | None) -> tuple[Parameter, ...]:
    """Rates as a fit keeps them; none if there are none."""
    if rates is None:
        return ()
    return tuple(Parameter(f"cpu.{name}", getattr(rates, name), "s") for name in _RATES)


def _rates_in(fit: Fit) -> Rates | None:
    """The rates that a fit keeps; None if it has none."""
    values = [fit.get(f"cpu.{name}") for name in _RATES]
    known = [value for value in values if value is not None]
    return Rates(*known) if len(known) == len(_RATES) else None


def unlimited_by_rates(fit: Fit, curve: Curve, context: Context) -> float:
    """The measured unlimited seconds of a curve, else those that the fit's rates give.

    Raises:
        CannotPredictError: there are neither.
    """
    if len(curve.unlimited_seconds):
        return curve.unlimited_s
    rates = _rates_in(fit)
    if rates is None:
        raise CannotPredictError(_NO_TIME)
    return predicted_s(inference_for(curve, context), rates, curve.phase, curve.network)


def fit_network_rates(curves: Iterable[Curve], context: Context) -> Rates | None:
    """The rates that the curves' unlimited times show; None if too few are known."""
    return fit_rates([time for _, time in _network_times(curves, context)])


def _left_out(curves: Sequence[Curve], context: Context) -> list[tuple[Curve, float]]:
    """Of each curve ln(by rates / measured), by the rates of all other networks."""
    times, found = _network_times(curves, context), []
    for network in sorted({workload_network(curve) for curve in curves}):
        rates = fit_rates([time for name, time in times if name != network])
        for curve in (one for one in curves if workload_network(one) == network):
            by_rates = _by_rates(curve, rates, _workload(curve, context))
            if by_rates is not None:
                found.append((curve, by_rates - float(np.log(curve.unlimited_s))))
    return found


def _share(by_rates: Sequence[tuple[Curve, float]], off: Mapping[str, float]) -> float:
    """The share that predicts trials above the demand best; 0 without any."""
    shifts: list[float] = []
    wanted: list[FloatArray] = []
    for curve, d in by_rates:
        if curve.demand_bytes is not None:
            above = np.log(curve.medians[curve.limits >= curve.demand_bytes])
            shifts += [d - off[_kind(curve)]] * len(above)
            wanted.append(above)
    if not shifts:
        return 0.0
    clipped, seen = np.clip(shifts, -_MOST, _MOST), np.concatenate(wanted)
    errors = [float(np.mean(np.abs(seen - share * clipped))) for share in _SHARES]
    return float(_SHARES[int(np.argmin(errors))])


def _workload(curve: Curve, context: Context) -> Workload | None:
    try:
        return inference_for(curve, context)
    except CannotPredictError:
        return None


def _by_rates(curve: Curve, rates: Rates | None, workload: Workload | None) -> float | None:
    """The logarithm of the seconds by rates; None if they are unknown."""
    if rates is None or workload is None:
        return None
    seconds = predicted_s(workload, rates, curve.phase, curve.network)
    return float(np.log(seconds)) if seconds > 0 else None


def _kind(curve: Curve) -> str:
    settings = curve.settings
    return "/".join(str(k) for k in (curve.phase, settings.get("loader"), settings.get("schedule")))
