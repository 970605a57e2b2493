"""Tables of layers from results frames: their time, and what a limit adds to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from edgebench.analysis.layer_table import (
    LayerCostTable,
    LayerExtraTime,
    LayerPhases,
    LayerRow,
    PassCost,
    PassTimes,
    PhaseCost,
    UnfinishedLimit,
)
from edgebench.errors import ResultsError
from edgebench.results.facts import is_one_walk, point_facts, walk_numbers
from edgebench.results.results import Results, once_for_results
from edgebench.results.times import Ratio, Spread, ratio_of, spread_of
from edgebench.workloads.engines.engine import WHOLE

if TYPE_CHECKING:
    import pandas as pd


def by_repeat(trials: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Make each round a trial of its own where one walk is all there is at a limit.

    Args:
        trials: rows of ``Results.trials`` of one workload.
        rows: of its layers or phases.
    """
    import pandas as pd

    walks = pd.Series(walk_numbers(trials["walk_step"]), trials.index)
    by_limit = walks[trials["outcome"] == "ok"].groupby(trials["limit_label"])
    is_walked = rows["limit_label"].map(by_limit.apply(is_one_walk)).eq(True)
    rounds = rows["trial"] + ":" + rows["round"].astype(str)
    return rows.assign(trial=rows["trial"].where(~is_walked, rounds))


def walked_ratios(results: Results) -> dict[tuple[str, str], Ratio]:
    """Return sweep and point → the slowdown of a walked limit, within the walk's process."""
    return {
        (sweep.name, point.point): point.ratios["total"]
        for sweep in results.sweeps
        for point in (point_facts(sweep) if "walk_step" in sweep.columns.numbers else ())
        if point.steady_relative and "total" in point.ratios
    }


NO_LAYERS_REMEDY = "layers come of networks: edgebench layers NETWORK"
#: The phases that make a pass.
PHASES = ("load", "first", "execute")
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
    from edgebench.results.columns import DISTINCT
    from edgebench.results.frames import answering_rows

    tables: list[LayerCostTable] = []
    left_out: list[str] = []
    # The prefill is a language model's first execution.
    layers = results.layers.assign(phase=results.layers["phase"].replace("prefill", "first"))
    walked = walked_ratios(results)
    for _, trials in results.trials.groupby(["sweep", "workload"], sort=False):
        # Plain values: an option may be one of NumPy's truth values.
        about = trials.iloc[0][["sweep", *DISTINCT]].dropna().to_dict()
        settings = {str(key): value for key, value in about.items()}
        workload_layers = _of(trials, layers[layers["phase"].isin(PHASES)])
        try:
            clocks = by_repeat(trials, answering_rows(_of(trials, results.phases)))
            timed = by_repeat(trials, answering_rows(workload_layers))
            tables.append(_table(settings, trials, timed, clocks, walked))
        except ResultsError as error:
            left_out.append(error.what)
    if not tables:
        where = str(results.sweeps[0].path)
        what = "; ".join(dict.fromkeys(left_out)) or "no trial here"
        raise ResultsError(what, where=where, remedy=NO_LAYERS_REMEDY)
    return LayerCostTables(tables, left_out)


def _of(trials: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    is_theirs = rows["trial"].isin(trials["trial"]) & (rows["sweep"] == trials["sweep"].iloc[0])
    done: pd.DataFrame = rows[is_theirs & (rows["outcome"] == "ok")]
    return done


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
        unfinished=_unfinished(trials),
        demand_bytes=median_or_none(unlimited["demand_bytes"]),
    )


def _steps(layers: pd.DataFrame) -> dict[tuple[Any, ...], LayerPhases]:
    grouped = layers.groupby([*_KEY, "phase", "trial", "round"], sort=False)
    rounds = grouped.agg(
        seconds=("wall_s", "mean"),
        times=("wall_s", "size"),
        peak=("peak_bytes", "max"),
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
    about = ("parameter_bytes", "file_bytes", "output_bytes", "flops")
    rows = []
    once = layers.drop_duplicates(["network", "layer"]).set_index(["network", "layer"])
    places = {network: n for n, network in enumerate(layers["network"].unique())}
    for network, order in sorted(once.index, key=lambda key: (places[key[0]], key[1])):
        facts = once.loc[(network, order)]
        here = steps.get((unlimited.label, network, order))
        if here is None:
            # Without a time to compare with; a whole sweep has none such.
            continue
        at = {}
        for cost in costs:
            there = steps.get((cost.at.label, network, order), LayerPhases())
            at[cost.at.label] = LayerExtraTime(
                steps=there,
                load_extra_s=there.load_s - here.load_s,
                execute_extra_s=there.execute_s - here.execute_s,
                extra_share=fraction(there.pass_s - here.pass_s, cost.extra_s),
                surely_slower=is_longer(there, here),
            )
        rows.append(
            LayerRow(
                network=str(network),
                order=int(order),
                name=str(facts["name"]),
                type=str(facts["type"]) if facts["type"] == facts["type"] else "",
                **{name: number_or_none(facts[name]) for name in about},
                unlimited=here,
                share=here.pass_s / unlimited.sum_s,
                at=at,
            )
        )
    return rows


def _unfinished(trials: pd.DataFrame) -> list[UnfinishedLimit]:
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
    return sorted(unfinished, key=lambda limit: -(limit.limit_bytes or 0))


def pass_times(
    layers: pd.DataFrame, phases: pd.DataFrame, steps: Mapping[tuple[Any, ...], LayerPhases]
) -> list[PassTimes]:
    """Make the passes: unlimited first, then from the widest limit to the tightest.

    Args:
        layers: rows of ``Results.layers`` of one workload.
        phases: its rows of ``Results.phases``.
        steps: limit, network and layer → its steps.
    """
    keys = ["trial", "round"]
    clock = phases[phases["phase"] == "round"].set_index(keys)["wall_s"]
    # What is decoded after the prefill is not timed by layer.
    decoding = phases[phases["phase"] == "decode"].groupby(keys)["wall_s"].sum()
    clock = clock.sub(decoding.reindex(clock.index, fill_value=0.0))
    rounds = _covered(layers).join(clock.rename("clock"), how="inner")
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


def _covered(layers: pd.DataFrame) -> pd.DataFrame:
    """By trial and round: seconds of all layers added up, and those in which any was under way."""
    keys = ["trial", "round"]
    spans = layers[[*keys, "start_ns", "end_ns", "wall_s"]].sort_values([*keys, "start_ns"])
    until = spans.groupby(keys)["end_ns"].cummax().groupby([spans[k] for k in keys]).shift(1)
    start = spans["start_ns"].astype(float)
    begin = start.where(until.isna() | (until < start), until)
    spans["covered"] = (spans["end_ns"] - begin).clip(lower=0) / 1e9
    sums = spans.groupby(keys)[["wall_s", "covered"]].sum()
    return sums.rename(columns={"wall_s": "busy"})


def pass_cost(at: PassTimes, unlimited: PassTimes, walked: Ratio | None = None) -> PassCost:
    """Compare a pass at a limit with the unlimited one.

    Args:
        at: the pass there.
        unlimited: the pass without a limit, of all processes.
        walked: the slowdown, where rounds are compared with unlimited ones of the same process.
    """
    extra = at.sum_s - unlimited.sum_s
    glue = at.glue_s - unlimited.glue_s
    ratio = walked or ratio_of(at.clock_s, unlimited.clock_s)
    return PassCost(
        at=at,
        slowdown=ratio.median,
        extra_s=extra,
        glue_extra_s=glue,
        glue_extra_share=fraction(glue, extra),
        surely_slower=ratio.is_more,
        ratio=ratio,
    )


def is_longer(one: LayerPhases, other: LayerPhases) -> bool:
    """Whether a layer surely takes longer in one: the intervals don't overlap."""
    longer, shorter = one.interval_s, other.interval_s
    return longer is not None and shorter is not None and longer[0] > shorter[1]


def fraction(part: float, whole: float) -> float | None:
    """Their ratio; None if the whole is not above 0."""
    return part / whole if whole > 0 else None


def number_or_none(value: Any) -> float | None:
    """Convert a number; None for pandas' missing one."""
    return float(value) if value == value else None


def median_or_none(values: pd.Series) -> float | None:
    """Return the median of the known values; None if there are none, of which pandas 2 warns."""
    known = values.dropna()
    return float(known.median()) if len(known) else None
