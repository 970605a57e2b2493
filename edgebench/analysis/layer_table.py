"""The table of layer costs, as data: a workload's layers, unlimited and at each limit.

A pass is one round: every layer loaded, executed cold, and as often warm as the schedule does. A
layer's time in it is the sum of these; what is left of the round is *glue*, the time in which no
layer is loaded or executed. The extra time at a limit is a layer's time there less its time
unlimited; its ``extra_share`` is its part of the extra time of all layers and the glue.

Numbers are medians: over a trial's steady rounds first, then over trials, whose extremes are the
spread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from edgebench.errors import UsageError
from edgebench.results.times import Ratio, median_interval_of
from edgebench.text import format_limit, parse_share, parse_size

if TYPE_CHECKING:
    from edgebench.results.facts import WorkloadFacts
    from edgebench.results.times import Spread


#: The version of the tables as JSON. 1 had the keys ``blame``, ``glue_blame``, ``told_apart``,
#: ``lies_in`` and ``lost``.
LAYERS_SCHEMA = 2


@dataclass(frozen=True)
class PhaseCost:
    """One phase of one layer at one limit; a pass has it ``times`` over.

    ``seconds`` are of one time. ``peak_bytes`` is the kernel's peak of the cgroup meanwhile; None
    where the kernel can't reset its mark. ``major_faults`` are the whole process's in all times.
    """

    seconds: Spread
    times: float = 1.0
    peak_bytes: float | None = None
    major_faults: float | None = None


@dataclass(frozen=True)
class LayerPhases:
    """A layer at one limit: loaded, executed cold (``first``), executed warm."""

    load: PhaseCost | None = None
    first: PhaseCost | None = None
    execute: PhaseCost | None = None

    @property
    def load_s(self) -> float:
        """Seconds of loading in a pass."""
        return _total_s(self.load)

    @property
    def execute_s(self) -> float:
        """Seconds of all executions in a pass."""
        return _total_s(self.first) + _total_s(self.execute)

    @property
    def pass_s(self) -> float:
        """Seconds of a pass."""
        return self.load_s + self.execute_s

    @property
    def major_faults(self) -> float | None:
        """Major faults in a pass; None if any is unknown."""
        faults = [step.major_faults for step in self._made()]
        return sum(n for n in faults if n is not None) if None not in faults else None

    @property
    def peak_bytes(self) -> float | None:
        """The kernel's highest peak of its steps."""
        return max((s.peak_bytes for s in self._made() if s.peak_bytes is not None), default=None)

    @property
    def interval_s(self) -> tuple[float, float] | None:
        """The interval of :attr:`pass_s` from its repeats; None where there is only one repeat."""
        ends = [(step.times, median_interval_of(step.seconds)) for step in self._made()]
        low = [times * end[0] for times, end in ends if end]
        high = [times * end[1] for times, end in ends if end]
        return (sum(low), sum(high)) if len(low) == len(ends) else None

    def _made(self) -> list[PhaseCost]:
        return [step for step in (self.load, self.first, self.execute) if step]


@dataclass(frozen=True)
class LayerExtraTime:
    """The extra time of one layer at a limit: seconds per pass, and its share of all extra time.

    ``extra_share`` is None where nothing is slower.
    ``surely_slower``: whether the layer is surely slower.
    """

    steps: LayerPhases
    load_extra_s: float
    execute_extra_s: float
    extra_share: float | None
    surely_slower: bool = True

    @property
    def extra_s(self) -> float:
        """Extra seconds in a pass."""
        return self.load_extra_s + self.execute_extra_s


@dataclass(frozen=True)
class LayerRow:
    """One layer: what it is, what it takes unlimited, and by limit what that costs it.

    ``share`` is its part of an unlimited pass.
    """

    network: str
    order: int
    name: str
    type: str
    parameter_bytes: float | None
    file_bytes: float | None
    output_bytes: float | None
    flops: float | None
    unlimited: LayerPhases
    share: float
    at: dict[str, LayerExtraTime] = field(default_factory=dict)


@dataclass(frozen=True)
class PassTimes:
    """All of a round at one limit. ``clock_s`` is its time on the clock.

    ``layers_s`` adds up the layers' times, ``glue_s`` is the time without any layer. ``overlap``
    is the layers' times added up over the time in which any layer was under way: above 1 where a
    schedule overlaps them, and then they add up to more than the clock's time.
    """

    label: str
    limit_bytes: float | None
    clock_s: Spread
    layers_s: float
    glue_s: float
    overlap: float

    @property
    def limit(self) -> str:
        """The limit as text."""
        return format_limit(self.label, self.limit_bytes)

    @property
    def sum_s(self) -> float:
        """Layers and glue added up."""
        return self.layers_s + self.glue_s


@dataclass(frozen=True)
class PassCost:
    """A pass at one limit compared with the unlimited one; ``glue_extra_share``: the glue's share.

    ``surely_slower``: whether it is surely slower; ``ratio`` is the slowdown with its interval.
    """

    at: PassTimes
    slowdown: float
    extra_s: float
    glue_extra_s: float
    glue_extra_share: float | None
    surely_slower: bool
    ratio: Ratio


@dataclass(frozen=True)
class UnfinishedLimit:
    """A limit at which no trial finished."""

    label: str
    limit_bytes: float | None
    outcomes: dict[str, int]
    reason: str | None


@dataclass(frozen=True)
class LayerCostTable:
    """One workload's layers, unlimited and at each limit.

    ``workload`` is the id of its :class:`~edgebench.results.workload_key.WorkloadKey`.
    ``layers`` are in the order of their calls, ``costs`` from the widest limit to the tightest.
    ``demand_bytes`` is the whole trial's, unlimited.
    """

    sweep: str
    workload: str
    network: str
    settings: dict[str, Any]
    unlimited: PassTimes
    layers: list[LayerRow]
    costs: list[PassCost]
    unfinished: list[UnfinishedLimit]
    demand_bytes: float | None

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``json.dumps``, with what is derived from it."""
        data = asdict(self)
        for row, layer in zip(data["layers"], self.layers, strict=True):
            for label, cost in layer.at.items():
                row["at"][label] |= {
                    "extra_s": cost.extra_s,
                    "major_faults": cost.steps.major_faults,
                }
        return data

    def slowed(self, workload: WorkloadFacts) -> PassCost | None:
        """Return the cost of the tightest limit that surely slows its workload and its layers.

        None: there is none, so no layer is to blame.
        """
        labels = {point.limits.label for point in workload.slowed}
        slowed = (c for c in reversed(self.costs) if c.surely_slower and c.extra_s > 0)
        return next((cost for cost in slowed if cost.at.label in labels), None)


def _total_s(step: PhaseCost | None) -> float:
    return step.times * step.seconds.median if step else 0.0


SORTS = ("cost", "time", "parameters", "peak", "order")


def matching_tables(
    tables: Sequence[LayerCostTable], network: str | None, settings: Mapping[str, Any]
) -> list[LayerCostTable]:
    """Select the tables of a network (alone or in a pipeline) with these settings.

    Raises:
        UsageError: there is none; names those that there are.
    """
    chosen = [
        table
        for table in tables
        if network in (None, table.network, *table.network.split("+"))
        and all(table.settings.get(name) == value for name, value in settings.items())
    ]
    if not chosen:
        names = ("schedule", "loader", "batch")
        there = [
            " ".join([table.network, *(f"--{n} {table.settings.get(n)}" for n in names)])
            for table in tables
        ]
        words = [network or "any network", *(f"--{k} {v}" for k, v in settings.items())]
        raise UsageError(
            f"no layers of {' '.join(words)} in these results",
            remedy="they have:\n    " + "\n    ".join(there),
        )
    return chosen


def costs_at_limits(
    tables: Sequence[LayerCostTable], memory: Sequence[str]
) -> list[list[PassCost]]:
    """Select the limits of which a table is shown: those named, else the tightest.

    Raises:
        UsageError: a limit that no table has; names those that there are.
    """
    if not memory:
        return [table.costs[-1:] for table in tables]
    places = [(cost.at.label, cost.at.limit_bytes) for table in tables for cost in table.costs]
    places += [(at.label, at.limit_bytes) for table in tables for at in table.unfinished]
    for word in memory:
        if word != "max" and not any(_means(word, *place) for place in places):
            there = ", ".join(dict.fromkeys(label for label, _ in places)) or "none"
            what = f"no limit {word!r} in these results"
            raise UsageError(what, remedy=f"they have: {there}")
    return [
        [c for c in table.costs if any(_means(w, c.at.label, c.at.limit_bytes) for w in memory)]
        for table in tables
    ]


def sorted_layers(table: LayerCostTable, sort: str | None, label: str | None) -> list[LayerRow]:
    """Sort a table's layers; ties in the order of their calls.

    Args:
        table: whose layers.
        sort: one of :data:`SORTS`; None means ``cost``, or ``time`` without a limit.
        label: the limit whose extra time is sorted by.
    """
    sort = sort or ("time" if label is None else "cost")

    def key(row: LayerRow) -> float:
        if sort == "cost" and label is not None:
            return -row.at[label].extra_s
        known = {"parameters": row.parameter_bytes, "peak": row.unlimited.peak_bytes, "order": 0.0}
        return -(known.get(sort, row.unlimited.pass_s) or 0.0)

    return sorted(table.layers, key=key)


def _means(word: str, label: str, limit_bytes: float | None) -> bool:
    """Whether a limit as typed is this one: ``200M`` is also ``204800K``, ``23%`` ``23.0%``."""
    if word == label:
        return True
    share = parse_share(word)
    if share is None:
        return parse_size(word) == limit_bytes
    return label.endswith("%") and parse_share(label) == share
