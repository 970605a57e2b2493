"""Makes the tables of layer costs from results frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from edgebench.analysis.layer_costs.passes import (
    fraction,
    is_longer,
    number_or_none,
    pass_cost,
    pass_times,
)
from edgebench.analysis.layer_costs.table import (
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
from edgebench.records import Doubt
from edgebench.results.once import once_for_results
from edgebench.results.point_facts import point_facts
from edgebench.results.point_times import is_one_walk, walk_numbers
from edgebench.results.spread import Ratio, Spread
from edgebench.workloads.engines.engine import WHOLE

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.results.results import Results
    from edgebench.results.spread import Ratio


def by_repeat(trials: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with each round as a trial of its own where one walk is all there is at a limit.

    Args:
        trials: rows of ``Results.trials`` of one workload.
        rows: of its layers or phases.
    """
    import pandas as pd

    walks = pd.Series(walk_numbers(trials["walk_step"]), trials.index)
    by_limit = walks[trials["outcome"] == "ok"].groupby(trials["limit_label"])
    own = rows["limit_label"].map(by_limit.apply(is_one_walk)).eq(True)
    rounds = rows["trial"] + ":" + rows["round"].astype(str)
    return rows.assign(trial=rows["trial"].where(~own, rounds))


def walked_ratios(results: Results) -> dict[tuple[str, str], Ratio]:
    """Sweep and point → the slowdown of a limit that was walked: in the walk's own process."""
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
    """The table of every workload of the sweeps.

    Raises:
        ResultsError: no workload has layers and an unlimited trial that finished.
    """
    from edgebench.results.frames import answering_rows

    tables: list[LayerCostTable] = []
    left_out: list[str] = []
    # The prefill is a language model's first execution.
    layers = results.layers.assign(phase=results.layers["phase"].replace("prefill", "first"))
    walked, doubted = walked_ratios(results), _doubted(results)
    for settings, trials in _workloads(results.trials):
        own = _of(trials, layers[layers["phase"].isin(PHASES)])
        try:
            clocks = by_repeat(trials, answering_rows(_of(trials, results.phases)))
            timed = by_repeat(trials, answering_rows(own))
            tables.append(_table(settings, trials, timed, clocks, walked, doubted))
        except ResultsError as error:
            left_out.append(error.what)
    if not tables:
        where = str(results.sweeps[0].path)
        what = "; ".join(dict.fromkeys(left_out)) or "no trial here"
        raise ResultsError(what, where=where, remedy=NO_LAYERS_REMEDY)
    return LayerCostTables(tables, left_out)


def _workloads(trials: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    from edgebench.results.frames import DISTINCT

    for _, rows in trials.groupby(["sweep", "workload"], sort=False):
        settings = rows.iloc[0][["sweep", *DISTINCT]].dropna()
        # Plain values: an option may be one of NumPy's truth values.
        yield {str(k): v for k, v in settings.to_dict().items()}, rows


def _of(trials: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of those of these trials that finished."""
    own = rows["trial"].isin(trials["trial"]) & (rows["sweep"] == trials["sweep"].iloc[0])
    done: pd.DataFrame = rows[own & (rows["outcome"] == "ok")]
    return done


def _table(
    settings: dict[str, Any],
    trials: pd.DataFrame,
    layers: pd.DataFrame,
    phases: pd.DataFrame,
    walked: Mapping[tuple[str, str], Ratio],
    doubted: Mapping[tuple[str, str], list[Doubt]],
) -> LayerCostTable:
    name = str(settings.get("network", settings.get("command", "the workload")))
    unlimited = trials[trials["memory_bytes"].isna()]
    if "network" not in settings:
        raise ResultsError(f"no layer of {name} was timed: it is no network")
    if not (unlimited["outcome"] == "ok").any():
        why = next((f": {reason}" for reason in unlimited["reason"].dropna()), "")
        raise ResultsError(f"no unlimited trial of {name} finished{why}")
    if layers[layers["memory_bytes"].isna()].empty:
        raise ResultsError(f"no layer of {name} was timed: {_why_no_layer(settings)}")
    steps = _steps(layers)
    passes = pass_times(layers, phases, steps)
    (whole,) = (p for p in passes if p.limit_bytes is None)
    places = trials.drop_duplicates("limit_label").set_index("limit_label")["point"]
    costs = [
        pass_cost(one, whole, walked.get((str(settings["sweep"]), str(places[one.label]))))
        for one in passes
        if one is not whole
    ]
    return LayerCostTable(
        sweep=str(settings["sweep"]),
        workload=str(trials["workload"].iloc[0]),
        network=name,
        settings={key: value for key, value in settings.items() if key != "sweep"},
        unlimited=whole,
        layers=_rows(layers, steps, whole, costs),
        costs=costs,
        unfinished=_unfinished(trials),
        base_bytes=number_or_none(unlimited["base_bytes"].median()),
        demand_bytes=number_or_none(unlimited["demand_bytes"].median()),
        doubts=_doubts(trials, doubted),
        collections_s=[float(taken) for taken in trials["collections_s"] if taken > 0],
    )


def _why_no_layer(settings: dict[str, Any]) -> str:
    if settings.get("schedule") == WHOLE:
        return "it was loaded and executed as a whole"
    return "its trials left no events"


def _steps(layers: pd.DataFrame) -> dict[tuple[Any, ...], LayerPhases]:
    """Limit, network and layer → its steps."""
    rows = layers.assign(growth=layers["peak_bytes"] - layers["usage_before_bytes"])
    grouped = rows.groupby([*_KEY, "phase", "trial", "round"], sort=False)
    rounds = grouped.agg(
        seconds=("wall_s", "mean"),
        times=("wall_s", "size"),
        peak=("peak_bytes", "max"),
        growth=("growth", "max"),
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
        growth=("growth", "median"),
        faults=("faults", "median"),
    )
    found: dict[tuple[Any, ...], dict[str, PhaseCost]] = {}
    for (*key, phase), own in zip(points.index, points.to_dict("records"), strict=True):
        seconds = Spread(own["median"], own["low"], own["high"], int(own["count"]))
        memory = (number_or_none(own[name]) for name in ("peak", "growth", "faults"))
        found.setdefault(tuple(key), {})[phase] = PhaseCost(seconds, own["times"], *memory)
    return {key: LayerPhases(**steps) for key, steps in found.items()}


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
        own = steps.get((unlimited.label, network, order))
        if own is None:
            # Without a time to compare with; a whole sweep has none such.
            continue
        rows.append(
            LayerRow(
                network=str(network),
                order=int(order),
                name=str(facts["name"]),
                type=str(facts["type"]) if facts["type"] == facts["type"] else "",
                **{name: number_or_none(facts[name]) for name in about},
                unlimited=own,
                share=own.pass_s / unlimited.sum_s,
                at=dict(_costs(network, order, own, steps, costs)),
            )
        )
    return rows


def _costs(
    network: str,
    order: int,
    unlimited: LayerPhases,
    steps: Mapping[tuple[Any, ...], LayerPhases],
    costs: Sequence[PassCost],
) -> Iterator[tuple[str, LayerExtraTime]]:
    for cost in costs:
        label = cost.at.label
        own = steps.get((label, network, order), LayerPhases())
        yield (
            label,
            LayerExtraTime(
                steps=own,
                load_extra_s=own.load_s - unlimited.load_s,
                execute_extra_s=own.execute_s - unlimited.execute_s,
                load_slowdown=fraction(own.load_s, unlimited.load_s),
                execute_slowdown=fraction(own.execute_s, unlimited.execute_s),
                extra_share=fraction(own.pass_s - unlimited.pass_s, cost.extra_s),
                surely_slower=is_longer(own, unlimited),
            ),
        )


def _doubted(results: Results) -> dict[tuple[str, str], list[Doubt]]:
    """Sweep and trial → the trial's doubts, where it has some."""
    found = {}
    for sweep in results.sweeps:
        rows = range(len(sweep.records))
        trials, doubts = (sweep.columns.words(name, rows) for name in ("trial", "doubts"))
        pairs = zip(trials, doubts, strict=True)
        found.update({(sweep.name, str(trial)): own for trial, own in pairs if own})
    return found


def _doubts(trials: pd.DataFrame, doubted: Mapping[tuple[str, str], list[Doubt]]) -> list[Doubt]:
    """Those of the trials that finished, each with its trial and limit."""
    done = trials[trials["outcome"] == "ok"]
    places = zip(done["sweep"], done["trial"], done["limit_label"], strict=True)
    return [
        structs.replace(doubt, trial=str(trial), limit=str(limit))
        for sweep, trial, limit in places
        for doubt in doubted.get((str(sweep), str(trial)), ())
    ]


def _unfinished(trials: pd.DataFrame) -> list[UnfinishedLimit]:
    limited = trials[trials["memory_bytes"].notna()]
    finished = set(limited.loc[limited["outcome"] == "ok", "limit_label"])
    unfinished = [
        UnfinishedLimit(
            str(label),
            number_or_none(rows["limit_bytes"].fillna(rows["memory_bytes"]).median()),
            {str(k): int(v) for k, v in rows["outcome"].value_counts().items()},
            next((str(reason) for reason in rows["reason"].dropna()), None),
        )
        for label, rows in limited.groupby("limit_label", sort=False)
        if label not in finished
    ]
    return sorted(unfinished, key=lambda one: -(one.limit_bytes or 0))
