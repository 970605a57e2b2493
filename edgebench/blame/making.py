"""From results frames to the table of blame."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from edgebench.blame.passes import cost_of, known, passes_of, share_of
from edgebench.blame.table import BlameTable, Cost, LayerRow, Lost, Pass, PassCost, Step, Steps
from edgebench.errors import ResultsError
from edgebench.results.summary import Spread

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.results.results import Results

NO_LAYERS_REMEDY = "layers come of networks: edgebench layers NETWORK"
#: What sets two workloads of a sweep apart, beside their settings.
_APART = ("swap_kind", "swap_bytes", "cores", "cpu_quota")
#: The phases that make a pass.
PHASES = ("load", "first", "execute")
#: What identifies one layer at one limit.
_KEY = ["limit_label", "network", "layer"]


class Blamed(NamedTuple):
    """A table a workload, and for each workload that has none the reason."""

    tables: list[BlameTable]
    left_out: list[str]


def blame_tables(results: Results) -> Blamed:
    """The table of every workload of the sweeps.

    Raises:
        ResultsError: no workload has layers and an unlimited trial that finished.
    """
    tables: list[BlameTable] = []
    reasons: list[str] = []
    for settings, trials in _workloads(results.trials):
        own = _of(trials, results.layers[results.layers["phase"].isin(PHASES)])
        try:
            tables.append(_table(settings, trials, own, _of(trials, results.phases)))
        except ResultsError as error:
            reasons.append(error.what)
    if not tables:
        where = str(results.sweeps[0].path)
        what = "; ".join(dict.fromkeys(reasons)) or "no trial here"
        raise ResultsError(what, where=where, remedy=NO_LAYERS_REMEDY)
    return Blamed(tables, reasons)


def _workloads(trials: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    from edgebench.results.frames import SETTINGS

    keys = ["sweep", *SETTINGS, *_APART]
    for values, rows in trials.groupby(keys, dropna=False, sort=False):
        told: tuple[Any, ...] = tuple(values)
        yield {k: v for k, v in zip(keys, told, strict=True) if v == v}, rows


def _of(trials: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of those of these trials that finished."""
    own = rows["trial"].isin(trials["trial"]) & (rows["sweep"] == trials["sweep"].iloc[0])
    done: pd.DataFrame = rows[own & (rows["outcome"] == "ok")]
    return done


def _table(
    settings: dict[str, Any], trials: pd.DataFrame, layers: pd.DataFrame, phases: pd.DataFrame
) -> BlameTable:
    name = str(settings.get("network", settings.get("command", "the workload")))
    unlimited = trials[trials["memory_bytes"].isna()]
    if "network" not in settings:
        raise ResultsError(f"no layer of {name} was timed: it is no network")
    if not (unlimited["outcome"] == "ok").any():
        raise ResultsError(f"no unlimited trial of {name} finished{_why(unlimited)}")
    if layers[layers["memory_bytes"].isna()].empty:
        raise ResultsError(f"no layer of {name} was timed: its trials left no events")
    steps = _steps(layers)
    passes = passes_of(layers, phases, steps)
    (whole,) = (p for p in passes if p.limit_bytes is None)
    costs = [cost_of(one, whole) for one in passes if one is not whole]
    return BlameTable(
        sweep=str(settings["sweep"]),
        network=name,
        settings={key: value for key, value in settings.items() if key != "sweep"},
        unlimited=whole,
        layers=_rows(layers, steps, whole, costs),
        costs=costs,
        lost=_lost(trials),
        base_bytes=known(unlimited["base_bytes"].median()),
        demand_bytes=known(unlimited["demand_bytes"].median()),
        noise=list(_noise(trials)),
    )


def _steps(layers: pd.DataFrame) -> dict[tuple[Any, ...], Steps]:
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
    found: dict[tuple[Any, ...], dict[str, Step]] = {}
    for (*key, phase), own in zip(points.index, points.to_dict("records"), strict=True):
        found.setdefault(tuple(key), {})[phase] = _step(own)
    return {key: Steps(**steps) for key, steps in found.items()}


def _step(own: Mapping[Hashable, Any]) -> Step:
    seconds = Spread(own["median"], own["low"], own["high"], int(own["count"]))
    return Step(seconds, own["times"], *(known(own[n]) for n in ("peak", "growth", "faults")))


def _rows(
    layers: pd.DataFrame,
    steps: Mapping[tuple[Any, ...], Steps],
    unlimited: Pass,
    costs: Sequence[PassCost],
) -> list[LayerRow]:
    about = ("parameter_bytes", "file_bytes", "output_bytes", "flops")
    rows = []
    once = layers.drop_duplicates(["network", "layer"]).set_index(["network", "layer"])
    places = {network: n for n, network in enumerate(layers["network"].unique())}
    for network, order in sorted(once.index, key=lambda key: (places[key[0]], key[1])):
        facts = once.loc[(network, order)]
        own = steps[unlimited.label, network, order]
        rows.append(
            LayerRow(
                network=str(network),
                order=int(order),
                name=str(facts["name"]),
                type=str(facts["type"]) if facts["type"] == facts["type"] else "",
                **{name: known(facts[name]) for name in about},
                unlimited=own,
                share=own.pass_s / unlimited.sum_s,
                at=dict(_costs(network, order, own, steps, costs)),
            )
        )
    return rows


def _costs(
    network: str,
    order: int,
    unlimited: Steps,
    steps: Mapping[tuple[Any, ...], Steps],
    costs: Sequence[PassCost],
) -> Iterator[tuple[str, Cost]]:
    for cost in costs:
        label = cost.at.label
        own = steps.get((label, network, order), Steps())
        yield (
            label,
            Cost(
                steps=own,
                load_extra_s=own.load_s - unlimited.load_s,
                execute_extra_s=own.execute_s - unlimited.execute_s,
                load_slowdown=share_of(own.load_s, unlimited.load_s),
                execute_slowdown=share_of(own.execute_s, unlimited.execute_s),
                blame=share_of(own.pass_s - unlimited.pass_s, cost.extra_s),
            ),
        )


def _lost(trials: pd.DataFrame) -> list[Lost]:
    limited = trials[trials["memory_bytes"].notna()]
    finished = set(limited.loc[limited["outcome"] == "ok", "limit_label"])
    lost = [
        Lost(
            str(label),
            known(rows["limit_bytes"].fillna(rows["memory_bytes"]).median()),
            {str(k): int(v) for k, v in rows["outcome"].value_counts().items()},
            next((str(reason) for reason in rows["reason"].dropna()), None),
        )
        for label, rows in limited.groupby("limit_label", sort=False)
        if label not in finished
    ]
    return sorted(lost, key=lambda one: -(one.limit_bytes or 0))


def _noise(trials: pd.DataFrame) -> Iterator[str]:
    """What the harness warned of in each trial that counts."""
    done = trials[(trials["outcome"] == "ok") & (trials["warnings"] != "")]
    for trial, words in done[["trial", "warnings"]].itertuples(index=False):
        yield f"trial {trial}: {words}"


def _why(trials: pd.DataFrame) -> str:
    return next((f": {reason}" for reason in trials["reason"].dropna()), "")
