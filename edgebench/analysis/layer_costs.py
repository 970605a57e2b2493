"""The tables of layer costs: a workload's layers, unlimited and at each limit.

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
from typing import TYPE_CHECKING, Any, NamedTuple

from edgebench.errors import ResultsError, UsageError
from edgebench.layers.names import WHOLE
from edgebench.results.columns import DISTINCT
from edgebench.results.facts import WorkloadFacts, is_one_walk, point_facts, walk_numbers
from edgebench.results.frames import answering_rows
from edgebench.results.results import Results, once_for_results
from edgebench.results.times import Ratio, Spread, median_interval_of, ratio_of, spread_of
from edgebench.text import format_limit, parse_share, parse_size

if TYPE_CHECKING:
    import pandas as pd

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

    @property
    def total_s(self) -> float:
        """Seconds of all times in a pass."""
        return self.times * self.seconds.median


@dataclass(frozen=True)
class LayerPhases:
    """A layer at one limit: loaded, executed cold (``first``), executed warm."""

    load: PhaseCost | None = None
    first: PhaseCost | None = None
    execute: PhaseCost | None = None

    @property
    def load_s(self) -> float:
        """Seconds of loading in a pass."""
        return self.load.total_s if self.load else 0.0

    @property
    def execute_s(self) -> float:
        """Seconds of all executions in a pass."""
        return sum(step.total_s for step in (self.first, self.execute) if step)

    @property
    def pass_s(self) -> float:
        """Seconds of a pass."""
        return self.load_s + self.execute_s

    @property
    def major_faults(self) -> float | None:
        """Major faults in a pass; None if any is unknown."""
        faults = [step.major_faults for step in self._steps()]
        return sum(n for n in faults if n is not None) if None not in faults else None

    @property
    def peak_bytes(self) -> float | None:
        """The kernel's highest peak of its steps."""
        return max((s.peak_bytes for s in self._steps() if s.peak_bytes is not None), default=None)

    @property
    def interval_s(self) -> tuple[float, float] | None:
        """The interval of :attr:`pass_s` from its repeats; None where there is only one repeat."""
        ends = [(step.times, median_interval_of(step.seconds)) for step in self._steps()]
        low = [times * end[0] for times, end in ends if end]
        high = [times * end[1] for times, end in ends if end]
        return (sum(low), sum(high)) if len(low) == len(ends) else None

    def _steps(self) -> list[PhaseCost]:
        return [step for step in (self.load, self.first, self.execute) if step]


@dataclass(frozen=True)
class LayerExtraTime:
    """The extra time of one layer at a limit: seconds per pass, and its share of all extra time.

    ``extra_share`` is None where nothing is slower.
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
    """A pass at one limit compared with the unlimited one; ``ratio`` is the slowdown."""

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
                derived = {"extra_s": cost.extra_s, "major_faults": cost.steps.major_faults}
                row["at"][label] |= derived
        return data

    def slowed(self, workload: WorkloadFacts) -> PassCost | None:
        """Return the cost of the tightest limit that surely slows its workload and its layers.

        None: there is none, so no layer is to blame.
        """
        labels = {point.limits.label for point in workload.slowed}
        slowed = (c for c in reversed(self.costs) if c.surely_slower and c.extra_s > 0)
        return next((cost for cost in slowed if cost.at.label in labels), None)


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
        there = ""
        for table in tables:
            options = (f"--{n} {table.settings.get(n)}" for n in ("schedule", "loader", "batch"))
            there += "\n    " + " ".join([table.network, *options])
        words = [network or "any network", *(f"--{k} {v}" for k, v in settings.items())]
        what = f"no layers of {' '.join(words)} in these results"
        raise UsageError(what, remedy=f"they have:{there}")
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
            raise UsageError(f"no limit {word!r} in these results", remedy=f"they have: {there}")
    return [
        [c for c in table.costs if any(_means(w, c.at.label, c.at.limit_bytes) for w in memory)]
        for table in tables
    ]


def sorted_layers(table: LayerCostTable, sort: str | None, label: str | None) -> list[LayerRow]:
    """Sort a table's layers, by one of :data:`SORTS`; ties in the order of their calls.

    ``cost`` is the extra time at the limit ``label``; it is usual where there is a limit.
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


def _repeats(trials: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that answer of one workload's finished trials.

    Where one walk is all there is at a limit, each of its rounds is made a trial.
    """
    import pandas as pd

    is_theirs = rows["trial"].isin(trials["trial"]) & (rows["sweep"] == trials["sweep"].iloc[0])
    rows = answering_rows(rows[is_theirs & (rows["outcome"] == "ok")])
    walks = pd.Series(walk_numbers(trials["walk_step"]), trials.index)
    by_limit = walks[trials["outcome"] == "ok"].groupby(trials["limit_label"])
    is_walked = rows["limit_label"].map(by_limit.apply(is_one_walk)).eq(True)
    rounds = rows["trial"] + ":" + rows["round"].astype(str)
    return rows.assign(trial=rows["trial"].where(~is_walked, rounds))


#: What identifies one layer at one limit.
_KEY = ["limit_label", "network", "layer"]


class LayerCostTables(NamedTuple):
    """A table a workload, and for each workload that has none the reason."""

    tables: list[LayerCostTable]
    left_out: list[str]


@once_for_results
def layer_cost_tables(results: Results) -> LayerCostTables:
    """Make the table of every workload of the sweeps.

    Raises:
        ResultsError: no workload has layers and an unlimited trial that finished.
    """
    tables: list[LayerCostTable] = []
    left_out: list[str] = []
    # The prefill is a language model's first execution.
    layers = results.layers.assign(phase=results.layers["phase"].replace("prefill", "first"))
    layers = layers[layers["phase"].isin(("load", "first", "execute"))]
    # Sweep and point → the slowdown of a walked limit, within the walk's process.
    walked = {
        (sweep.name, point.point): point.ratios["total"]
        for sweep in results.sweeps
        for point in (point_facts(sweep) if "walk_step" in sweep.columns.numbers else ())
        if point.steady_relative and "total" in point.ratios
    }
    for _, trials in results.trials.groupby(["sweep", "workload"], sort=False):
        # Plain values: an option may be one of NumPy's truth values.
        about = trials.iloc[0][["sweep", *DISTINCT]].dropna().to_dict()
        settings = {str(key): value for key, value in about.items()}
        try:
            timed, clocks = _repeats(trials, layers), _repeats(trials, results.phases)
            tables.append(_table(settings, trials, timed, clocks, walked))
        except ResultsError as error:
            left_out.append(error.what)
    if not tables:
        where = str(results.sweeps[0].path)
        what = "; ".join(dict.fromkeys(left_out)) or "no trial here"
        remedy = "layers come of networks: edgebench layers NETWORK"
        raise ResultsError(what, where=where, remedy=remedy)
    return LayerCostTables(tables, left_out)


def _table(
    settings: dict[str, Any],
    trials: pd.DataFrame,
    layers: pd.DataFrame,
    phases: pd.DataFrame,
    walked: Mapping[tuple[str, str], Ratio],
) -> LayerCostTable:
    name = str(settings.get("network", settings.get("command", "the workload")))
    unlimited = trials[trials["memory_bytes"].isna()]
    if "network" not in settings:
        raise ResultsError(f"no layer of {name} was timed: it is no network")
    if not (unlimited["outcome"] == "ok").any():
        why = next((f": {reason}" for reason in unlimited["reason"].dropna()), "")
        raise ResultsError(f"no unlimited trial of {name} finished{why}")
    if layers[layers["memory_bytes"].isna()].empty:
        whole = settings.get("schedule") == WHOLE
        why = "it was loaded and executed as a whole" if whole else "its trials left no events"
        raise ResultsError(f"no layer of {name} was timed: {why}")
    steps = _steps(layers)
    passes = pass_times(layers, phases, steps)
    (unlimited_pass,) = (p for p in passes if p.limit_bytes is None)
    limited = trials[trials["memory_bytes"].notna()]
    finished = set(limited.loc[limited["outcome"] == "ok", "limit_label"])
    unfinished = [
        UnfinishedLimit(
            str(label),
            median_or_none(rows["limit_bytes"].fillna(rows["memory_bytes"])),
            {str(k): int(v) for k, v in rows["outcome"].value_counts().items()},
            next((str(reason) for reason in rows["reason"].dropna()), None),
        )
        for label, rows in limited.groupby("limit_label", sort=False)
        if label not in finished
    ]
    places = trials.drop_duplicates("limit_label").set_index("limit_label")["point"]
    sweep = str(settings["sweep"])
    costs = [
        pass_cost(at, unlimited_pass, walked.get((sweep, str(places[at.label]))))
        for at in passes
        if at is not unlimited_pass
    ]
    return LayerCostTable(
        sweep=sweep,
        workload=str(trials["workload"].iloc[0]),
        network=name,
        settings={key: value for key, value in settings.items() if key != "sweep"},
        unlimited=unlimited_pass,
        layers=_rows(layers, steps, unlimited_pass, costs),
        costs=costs,
        unfinished=sorted(unfinished, key=lambda limit: -(limit.limit_bytes or 0)),
        demand_bytes=median_or_none(unlimited["demand_bytes"]),
    )


def _steps(layers: pd.DataFrame) -> dict[tuple[Any, ...], LayerPhases]:
    grouped = layers.groupby([*_KEY, "phase", "trial", "round"], sort=False)
    rounds = grouped.agg(
        seconds=("wall_s", "mean"), times=("wall_s", "size"), peak=("peak_bytes", "max")
    )
    # Not in agg: a sum of unknowns would be 0 there.
    rounds["faults"] = grouped["major_faults"].sum(min_count=1)
    trials = rounds.groupby(level=[*_KEY, "phase", "trial"], sort=False).median()
    points = trials.groupby(level=[*_KEY, "phase"], sort=False).agg(
        median=("seconds", "median"),
        low=("seconds", "min"),
        high=("seconds", "max"),
        count=("seconds", "size"),
        times=("times", "median"),
        peak=("peak", "median"),
        faults=("faults", "median"),
    )
    phases: dict[tuple[Any, ...], dict[str, PhaseCost]] = {}
    for (*key, phase), point in zip(points.index, points.to_dict("records"), strict=True):
        seconds = Spread(point["median"], point["low"], point["high"], int(point["count"]))
        memory = (number_or_none(point[name]) for name in ("peak", "faults"))
        phases.setdefault(tuple(key), {})[phase] = PhaseCost(seconds, point["times"], *memory)
    return {key: LayerPhases(**steps) for key, steps in phases.items()}


def _rows(
    layers: pd.DataFrame,
    steps: Mapping[tuple[Any, ...], LayerPhases],
    unlimited: PassTimes,
    costs: Sequence[PassCost],
) -> list[LayerRow]:
    rows, sizes = [], ("parameter_bytes", "file_bytes", "output_bytes", "flops")
    once = layers.drop_duplicates(["network", "layer"]).set_index(["network", "layer"])
    places = {network: n for n, network in enumerate(layers["network"].unique())}
    for network, order in sorted(once.index, key=lambda key: (places[key[0]], key[1])):
        facts = once.loc[(network, order)]
        here = steps.get((unlimited.label, network, order))
        if here is None:
            # Without a time to compare with; a whole sweep has none such.
            continue
        at, unlimited_s = {}, here.interval_s
        for cost in costs:
            there = steps.get((cost.at.label, network, order), LayerPhases())
            limited_s, extra_s = there.interval_s, cost.extra_s
            at[cost.at.label] = LayerExtraTime(
                steps=there,
                load_extra_s=there.load_s - here.load_s,
                execute_extra_s=there.execute_s - here.execute_s,
                extra_share=(there.pass_s - here.pass_s) / extra_s if extra_s > 0 else None,
                # The intervals don't overlap.
                surely_slower=bool(limited_s and unlimited_s and limited_s[0] > unlimited_s[1]),
            )
        rows.append(
            LayerRow(
                network=str(network),
                order=int(order),
                name=str(facts["name"]),
                type=str(facts["type"]) if facts["type"] == facts["type"] else "",
                **{name: number_or_none(facts[name]) for name in sizes},
                unlimited=here,
                share=here.pass_s / unlimited.sum_s,
                at=at,
            )
        )
    return rows


def pass_times(
    layers: pd.DataFrame, phases: pd.DataFrame, steps: Mapping[tuple[Any, ...], LayerPhases]
) -> list[PassTimes]:
    """Make the passes of one workload: unlimited first, then from the widest limit on."""
    keys = ["trial", "round"]
    clock = phases[phases["phase"] == "round"].set_index(keys)["wall_s"]
    # What is decoded after the prefill is not timed by layer.
    decoding = phases[phases["phase"] == "decode"].groupby(keys)["wall_s"].sum()
    clock = clock.sub(decoding.reindex(clock.index, fill_value=0.0))
    # Seconds of all layers added up, and those in which any was under way.
    spans = layers[[*keys, "start_ns", "end_ns", "wall_s"]].sort_values([*keys, "start_ns"])
    until = spans.groupby(keys)["end_ns"].cummax().groupby([spans[k] for k in keys]).shift(1)
    start = spans["start_ns"].astype(float)
    begin = start.where(until.isna() | (until < start), until)
    spans["covered"] = (spans["end_ns"] - begin).clip(lower=0) / 1e9
    sums = spans.groupby(keys)[["wall_s", "covered"]].sum().rename(columns={"wall_s": "busy"})
    rounds = sums.join(clock.rename("clock"), how="inner")
    rounds["overlap"] = rounds["busy"] / rounds["covered"]
    rounds["glue"] = (rounds["clock"] - rounds["covered"]).clip(lower=0.0)
    limits = layers.drop_duplicates("trial").set_index("trial")[["limit_label", "limit_bytes"]]
    trials = rounds.groupby(level="trial").median().join(limits)
    passes = [
        PassTimes(
            label=str(label),
            limit_bytes=median_or_none(group["limit_bytes"]),
            clock_s=spread,
            layers_s=sum(own_steps.pass_s for key, own_steps in steps.items() if key[0] == label),
            glue_s=float(group["glue"].median()),
            overlap=float(group["overlap"].median()),
        )
        for label, group in trials.groupby("limit_label", sort=False)
        if (spread := spread_of(group["clock"].tolist()))
    ]
    return sorted(passes, key=lambda at: -(at.limit_bytes or float("inf")))


def pass_cost(at: PassTimes, unlimited: PassTimes, walked: Ratio | None = None) -> PassCost:
    """Compare a pass at a limit with the unlimited one.

    ``walked`` is the slowdown where rounds are compared with unlimited ones of the same process.
    """
    extra = at.sum_s - unlimited.sum_s
    glue = at.glue_s - unlimited.glue_s
    ratio = walked or ratio_of(at.clock_s, unlimited.clock_s)
    return PassCost(
        at=at,
        slowdown=ratio.median,
        extra_s=extra,
        glue_extra_s=glue,
        glue_extra_share=glue / extra if extra > 0 else None,
        surely_slower=ratio.is_more,
        ratio=ratio,
    )


def number_or_none(value: Any) -> float | None:
    """Convert a number; None for pandas' missing one."""
    return float(value) if value == value else None


def median_or_none(values: pd.Series) -> float | None:
    """Return the median of the known values; None if there are none, of which pandas 2 warns."""
    known = values.dropna()
    return float(known.median()) if len(known) else None
