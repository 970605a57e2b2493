"""Time that nothing limits, from few trials of a network and from what other networks take.

Unlimited trials are few, and a machine has slow minutes. What the rates of other networks say
(:mod:`~edgebench.slowdown.cpu`) is off too, but for other reasons. So the two are mixed, in the
proportion by which trials at limits above the demand are told best.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgebench.slowdown.cpu import Rates, learnt, predicted_s
from edgebench.slowdown.data import Curve, FloatArray
from edgebench.slowdown.model import CannotTellError, Context, Fit, Parameter
from edgebench.slowdown.physics import rate_parameters, rates_in, times_in
from edgebench.slowdown.profile import inference_for
from edgebench.slowdown.splits import workload_network
from edgebench.slowdown.tables import Workload

#: Parts that rates may have in a mixture.
_SHARES = np.linspace(0.0, 0.7, 8)
#: What rates say is off by no more than this, or a layer table doesn't tell what takes the time.
_MOST = 0.5
_OFF, _SHARE = "off.", "rates' share"


@dataclass(frozen=True)
class Mixture:
    """How unlimited times are told.

    Attributes:
        rates: of all networks; None if too few are known.
        off: for each kind of curve the median of ln(by rates / measured).
        share: the part of the rates where a measured time is known, of its logarithm.
    """

    rates: Rates | None
    off: Mapping[str, float] = field(default_factory=dict)
    share: float = 0.0

    def seconds(self, asked: Curve, context: Context) -> float:
        """The unlimited time of a curve.

        Raises:
            CannotTellError: it has no unlimited trial, and nothing else tells.
        """
        told = _by_rates(asked, self.rates, _workload(asked, context))
        if told is not None:
            told -= self.off.get(_kind(asked), 0.0)
        if not len(asked.unlimited_seconds):
            if told is None:
                what = "no unlimited trial of it, nor of other networks to learn from"
                raise CannotTellError(what)
            return float(np.exp(told))
        measured = float(np.log(asked.unlimited_s))
        shift = 0.0 if told is None else float(np.clip(told - measured, -_MOST, _MOST))
        return float(np.exp(measured + self.share * shift))

    def parameters(self) -> Iterable[Parameter]:
        """All but the rates, as a fit keeps them."""
        yield Parameter(_SHARE, self.share, fixed=True)
        for kind, off in self.off.items():
            yield Parameter(_OFF + kind, off, fixed=True)


def mixture_in(fit: Fit) -> Mixture:
    """The mixture that a fit keeps."""
    kept = {p.name: p.value for p in fit.parameters}
    off = {n.removeprefix(_OFF): value for n, value in kept.items() if n.startswith(_OFF)}
    return Mixture(rates_in(fit), off, kept.get(_SHARE, 0.0))


def mixture(curves: Sequence[Curve], context: Context) -> tuple[Mixture, tuple[Parameter, ...]]:
    """What these curves teach, and the parameters that keep it, rates among them."""
    known = [curve for curve in curves if len(curve.unlimited_seconds)]
    rates = learnt([time for _, time in times_in(known, context)])
    told = _left_out(known, context)
    off = {
        kind: float(np.median([d for curve, d in told if _kind(curve) == kind]))
        for kind in sorted({_kind(curve) for curve, _ in told})
    }
    found = Mixture(rates, off, _share(told, off))
    return found, (*rate_parameters(rates), *found.parameters())


def _left_out(curves: Sequence[Curve], context: Context) -> list[tuple[Curve, float]]:
    """Of each curve ln(by rates / measured), by the rates of all other networks."""
    times, found = times_in(curves, context), []
    for network in sorted({workload_network(curve) for curve in curves}):
        rates = learnt([time for name, time in times if name != network])
        for curve in (one for one in curves if workload_network(one) == network):
            told = _by_rates(curve, rates, _workload(curve, context))
            if told is not None:
                found.append((curve, told - float(np.log(curve.unlimited_s))))
    return found


def _share(told: Sequence[tuple[Curve, float]], off: Mapping[str, float]) -> float:
    """The share by which trials above the demand are told best; 0 without any."""
    shifts: list[float] = []
    wanted: list[FloatArray] = []
    for curve, d in told:
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
    except CannotTellError:
        return None


def _by_rates(curve: Curve, rates: Rates | None, workload: Workload | None) -> float | None:
    """The logarithm of what rates say; None if they can't."""
    if rates is None or workload is None:
        return None
    seconds = predicted_s(workload, rates, curve.phase, curve.network)
    return float(np.log(seconds)) if seconds > 0 else None


def _kind(curve: Curve) -> str:
    settings = curve.settings
    return "/".join(str(k) for k in (curve.phase, settings.get("loader"), settings.get("schedule")))
