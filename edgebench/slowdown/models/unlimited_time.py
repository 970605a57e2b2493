"""Unlimited times: a network's own trials, or what other networks' rates say.

Rates (a file, a byte, a layer, a FLOP: :mod:`~edgebench.slowdown.simulator.cpu_time`) are fitted
to the unlimited times of networks that ran. What they miss in all curves of a kind is added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgebench.slowdown.context import CannotPredictError, Context
from edgebench.slowdown.curves import Curve
from edgebench.slowdown.simulator.cpu_time import Rates, fit_rates, predicted_s
from edgebench.slowdown.simulator.profile import device_for, workload_for
from edgebench.slowdown.simulator.workload import Workload

_NO_TIME = "no unlimited trial of it, nor of other networks to learn from"
#: A workload of one network, a phase, and its unlimited seconds a pass.
_Time = tuple[Workload, str, float]


@dataclass(frozen=True)
class UnlimitedTimes:
    """How unlimited times are known.

    Attributes:
        rates: of all networks; None if too few are known.
        off: for each kind of curve the median of ln(by rates / measured).
    """

    rates: Rates | None
    off: Mapping[str, float] = field(default_factory=dict)

    def seconds(self, curve: Curve, context: Context) -> float:
        """The median of the curve's unlimited trials; without any, what the rates say.

        Raises:
            CannotPredictError: it has no unlimited trial, and no rates are known.
        """
        if len(curve.unlimited_seconds):
            return curve.unlimited_s
        by_rates = _by_rates(curve, self.rates, context)
        if by_rates is None:
            raise CannotPredictError(_NO_TIME)
        return float(np.exp(by_rates - self.off.get(_kind(curve), 0.0)))


def fit_unlimited_times(curves: Sequence[Curve], context: Context) -> UnlimitedTimes:
    """What the curves' unlimited trials show."""
    known = [curve for curve in curves if len(curve.unlimited_seconds)]
    times = list(_network_times(known, context))
    groups: dict[str, list[float]] = {}
    for curve, error in _left_out(known, times, context):
        groups.setdefault(_kind(curve), []).append(error)
    off = {kind: float(np.median(values)) for kind, values in sorted(groups.items())}
    return UnlimitedTimes(fit_rates([time for _, time in times]), off)


def _network_times(curves: Iterable[Curve], context: Context) -> Iterator[tuple[str, _Time]]:
    """What rates are fitted to: names and unlimited times of networks that ran alone."""
    for curve in curves:
        if curve.phase in ("load", "first", "execute"):
            try:
                work = workload_for(curve, context)
            except CannotPredictError:
                continue
            if len(work.networks) == 1 and work.loader == "copy":
                yield work.networks[0], (work, curve.phase, curve.unlimited_s)


def _left_out(
    curves: Sequence[Curve], times: Sequence[tuple[str, _Time]], context: Context
) -> Iterator[tuple[Curve, float]]:
    """Of each curve ln(by rates / measured), by the rates of all other networks."""
    for network in sorted({curve.workload_network for curve in curves}):
        rates = fit_rates([time for name, time in times if name != network])
        for curve in (one for one in curves if one.workload_network == network):
            by_rates = _by_rates(curve, rates, context)
            if by_rates is not None:
                yield curve, by_rates - float(np.log(curve.unlimited_s))


def _by_rates(curve: Curve, rates: Rates | None, context: Context) -> float | None:
    """The logarithm of the seconds by rates; None if they are unknown."""
    if rates is None:
        return None
    try:
        workload = workload_for(curve, context)
    except CannotPredictError:
        return None
    ahead = _ahead_bytes(curve, context)
    seconds = predicted_s(workload, rates, curve.phase, curve.network, ahead)
    return float(np.log(seconds)) if seconds > 0 else None


def _ahead_bytes(curve: Curve, context: Context) -> float:
    """What is read of a mapped file when it is opened; 0 where the device is not known."""
    try:
        return device_for(curve, context).memory.ahead_bytes
    except CannotPredictError:
        return 0.0


def _kind(curve: Curve) -> str:
    settings = curve.settings
    return "/".join(str(k) for k in (curve.phase, settings.get("loader"), settings.get("schedule")))
