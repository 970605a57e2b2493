"""Energy of a point over its trials, where it was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.results.columns import ColumnTable
from edgebench.results.spread import Ratio, Spread, ratio_of, spread_of

#: What energy is of: a steady round (the start, where only one was run), or the whole trial.
ROUND, TRIAL = "round", "trial"


@dataclass(frozen=True)
class PointEnergy:
    """Joules of the trials that ended ``ok``.

    Args:
        energy_j: of one round or trial each, see ``part``.
        error_j: how far off the integration may be, the largest of all trials.
        domain: what of the machine it is of, as ``module`` or ``package + dram``.
        part: ``round`` or ``trial``.
    """

    energy_j: Spread
    error_j: float
    domain: str
    part: str

    def ratio_to(self, other: PointEnergy | None) -> Ratio | None:
        """Its energy over the other's; the interval is as wide as repeats and errors make it."""
        if other is None or (self.domain, self.part) != (other.domain, other.part):
            return None
        if other.energy_j.low <= other.error_j:
            return None
        ratio = ratio_of(self.energy_j, other.energy_j)
        if ratio.low is None or ratio.high is None:
            return ratio
        mine, theirs = self.energy_j.median, other.energy_j.median
        least = (mine - self.error_j) / (theirs + other.error_j)
        most = (mine + self.error_j) / (theirs - other.error_j)
        return Ratio(ratio.median, min(ratio.low, least), max(ratio.high, most), ratio.off)


def point_energy(columns: ColumnTable, rows: Sequence[int], has_rounds: bool) -> PointEnergy | None:
    """What these trials' energy comes to; None where none was measured.

    Of a workload with rounds it is that of a round alone, so that points with and without a known
    round are not compared.
    """
    told = zip(
        *(rows, columns.words("outcome", rows), columns.words("energy_domain", rows)), strict=True
    )
    domains = {row: domain for row, outcome, domain in told if outcome == "ok" and domain}
    if not domains:
        return None
    domain, _ = Counter(domains.values()).most_common(1)[0]
    same = [row for row, other in domains.items() if other == domain]
    part, prefix = (ROUND, "energy_round_") if has_rounds else (TRIAL, "energy_")
    energy = spread_of(columns.values(f"{prefix}j", same))
    errors = columns.values(f"{prefix}error_j", same)
    return PointEnergy(energy, max(errors, default=0.0), domain, part) if energy else None
