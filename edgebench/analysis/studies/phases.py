"""Studies of phases: CPU time by core, time by torch's operator, and the use of an accelerator.

Cores and accelerator: the measurements of Torres, Barrios and Denneulin, "Computational Resource
Consumption in Convolutional Neural Network Training – A Focus on Memory". Operators: the breakdown
of Agarwal, Paulsen and Hancock, "Performance Analysis of Machine Learning Model Training on Low
Power Devices".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from edgebench.analysis.studies.tables import Column, StudyTable, frame_rows
from edgebench.errors import ResultsError
from edgebench.measures.strategies import SEPARATOR
from edgebench.measures.strategies.engines import (
    ALL_NS,
    CALLS,
    CORE_NS,
    LOOKED_NS,
    WALL_NS,
    Cores,
    Operators,
)
from edgebench.records import TrialRecord, is_count, is_number
from edgebench.results.times import START, STEADY, round_stages
from edgebench.results.workload_key import settings_columns
from edgebench.spans import NO_ROUND
from edgebench.text import MIB

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.results.results import Results

#: The settings that get a column where trials differ in them.
_SETTINGS = (
    *("network", "schedule", "loader", "data", "shape", "image", "kernel", "channels", "stack"),
    *("framework", "compiled", "batch", "optimizer", "trained", "threads"),
)


def core_frame(results: Results) -> pd.DataFrame:
    """Make one row per trial that measured cores, phase and core.

    ``busy`` is the share of the time between the looks around the phase for which the core worked
    for it; ``wall_s`` the phase's time over all rounds counted; ``cores_busy`` the process's own
    CPU time over that.

    Raises:
        ResultsError: no trial of this sweep measured cores.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for sweep in results.sweeps:
        for record in sweep.strategy_records:
            readable = record.outcome == "ok" and "reading" not in record.missing
            if record.strategy != Cores.name or not readable:
                continue
            by_phase: dict[str, dict[str, int]] = {}
            for name, value in sweep.reading(record.trial).parts.items():
                phase, _, what = name.partition(SEPARATOR)
                by_phase.setdefault(phase, {})[what] = value
            about = {
                **settings_columns(record.settings),
                "trial": record.trial,
                "limit_label": record.limits.label,
            }
            # A core that one phase did not use is idle in it, not missing.
            used = {key for values in by_phase.values() for key in values}
            numbers = {key.removeprefix(CORE_NS) for key in used if key.startswith(CORE_NS)}
            rows += (
                {
                    **about,
                    "phase": phase,
                    "core": number,
                    "busy": values.get(f"{CORE_NS}{number}", 0) / values[LOOKED_NS],
                    "wall_s": values[WALL_NS] / 1e9,
                    "cores_busy": values.get(ALL_NS, 0) / values[WALL_NS],
                }
                for phase, values in by_phase.items()
                if values.get(WALL_NS) and values.get(LOOKED_NS)
                for number in sorted(int(n) for n in numbers if n.isdecimal())
            )
    if not rows:
        raise ResultsError('no trial measured cores: strategies = ["cores"]')
    # A convolution has no network.
    return pd.DataFrame(rows).assign(network=lambda frame: frame.get("network"))


def core_tables(results: Results) -> list[StudyTable]:
    """Make the table of how busy each core is in each phase, for each trial that measured cores.

    Raises:
        ResultsError: as :func:`core_frame`.
    """
    frame = core_frame(results)
    numbers = sorted(frame["core"].unique())
    # The network is always shown.
    counts = {key: frame[key].nunique() for key in _SETTINGS if key in frame}
    differing = [key for key, n in counts.items() if n > (0 if key == "network" else 1)]
    columns = (
        *(Column(key, key, words=True) for key in differing),
        Column("limit_label", "limit", words=True),
        Column("phase", "phase", words=True),
        Column("cores_busy", "cores busy", "{:.2f}"),
        *(Column(f"core_{number}", f"core {number}", "{:.0%}") for number in numbers),
    )
    rows = []
    for _, cores in frame.groupby(["trial", "phase"], sort=False):
        # A column a core.
        shared = {str(k): v for k, v in cores.iloc[0].items() if k not in ("core", "busy")}
        busy = zip(cores["core"], cores["busy"], strict=True)
        rows.append(shared | {f"core_{core}": share for core, share in busy})
    says = ("share of a phase's time during which each core worked for it, rounds after the first",)
    return [StudyTable("cores", "CPU time by core", columns, rows, says)]


#: A word in an operator's name → the family it belongs to; the first that fits.
_FAMILIES = {
    "conv": "convolution",
    "batch_norm": "batch normalisation",
    "native_layer_norm": "layer normalisation",
    "pool": "pooling",
    "threshold": "activation",
    "relu": "activation",
    "clamp": "activation",
    "hardtanh": "activation",
    "mm": "linear",
    "linear": "linear",
    "lstm": "recurrence",
    "softmax": "loss",
    "nll_loss": "loss",
    "foreach": "optimizer",
    "optimizer": "optimizer",
    "dropout": "dropout",
    "copy": "copying",
    "clone": "copying",
    "fill": "filling",
    "zero": "filling",
    "add": "addition",
}
OTHER = "other"
_SHOWN = 12


def operator_family(operator: str) -> str:
    """Find the family of an operator: ``aten::mkldnn_convolution`` → ``convolution``."""
    name = operator.lower()
    return next((family for word, family in _FAMILIES.items() if word in name), OTHER)


def operator_frame(results: Results) -> pd.DataFrame:
    """Make one row per phase and operator: ``calls`` and ``own_s`` a step, ``share`` of all.

    Raises:
        ResultsError: no trial of this sweep timed operators.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for sweep in results.sweeps:
        for record in sweep.strategy_records:
            if record.strategy != Operators.name or record.outcome != "ok":
                continue
            steps = len({phase.round for phase in record.phases if phase.round >= 0}) or 1
            operators: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
            for name, value in sweep.reading(record.trial).parts.items():
                phase, operator, what = name.split(SEPARATOR)
                operators[phase, operator][what] = value
            total_ns = sum(figures.get("own_ns", 0) for figures in operators.values()) or 1
            named = {k: record.settings.get(k) for k in ("network", "data", "batch", "trained")}
            rows += (
                {
                    "trial": record.trial,
                    **named,
                    "limit_label": record.limits.label,
                    "steps": steps,
                    "phase": phase,
                    "family": operator_family(operator),
                    "operator": operator,
                    "calls": figures.get(CALLS, 0) / steps,
                    "own_s": figures.get("own_ns", 0) / 1e9 / steps,
                    "share": figures.get("own_ns", 0) / total_ns,
                }
                for (phase, operator), figures in operators.items()
            )
    if not rows:
        raise ResultsError('no trial timed operators: strategies = ["operators"]')
    return pd.DataFrame(rows)


def operator_tables(results: Results) -> list[StudyTable]:
    """Make the tables of operators' families and of the slowest, for each trial that timed them.

    Raises:
        ResultsError: as :func:`operator_frame`.
    """
    tables = []
    for trial, rows in operator_frame(results).groupby("trial", sort=True):
        first = rows.iloc[0]
        workload = f"{first['network']}, batch {first['batch']:g}, trained {first['trained']}"
        title = f"{workload}: time over {first['steps']:g} steps (trial {trial})"
        families = _summed(rows, ["family"])
        operators = _summed(rows, ["family", "operator"]).head(_SHOWN)
        columns = (
            Column("calls", "calls per step", "{:.1f}"),
            Column("own_s", "ms per step", "{:.3f}", 1e-3),
            Column("share", "share", "{:.1%}"),
        )
        words = (Column("family", "family", words=True), Column("operator", "operator", words=True))
        says = ("share: of all operators' own time, without the Python code between them",)
        slowest = f"The {_SHOWN} slowest operators"
        tables += [
            StudyTable("families", title, (words[0], *columns), frame_rows(families)),
            StudyTable("operators", slowest, (*words, *columns), frame_rows(operators), says),
        ]
    return tables


def _summed(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    summed = rows.groupby(keys, as_index=False)[["calls", "own_s", "share"]].sum()
    return summed.sort_values("share", ascending=False, kind="stable")


_PHASE_KEYS = ("point", "network", "batch", "limit_label", "accelerator_bytes", "phase")
_FIGURES = (
    *("to_bytes", "to_s", "from_bytes", "from_s", "peak_allocated_bytes", "peak_reserved_bytes"),
)
_BEFORE_ROUNDS = "init"


def accelerator_frame(results: Results) -> pd.DataFrame:
    """Make one row per point, network and phase: medians of its trials' steady rounds.

    ``wall_s`` is the phase's time, ``copy_share`` the part of it in which something was copied.
    Where only one round was run, it is that of the start. ``init`` is the one before all rounds.

    Raises:
        ResultsError: nothing in this sweep computed on an accelerator.
    """
    import pandas as pd

    rows = [row for record in results.sweeps[0].records for row in _accelerator_rows(record)]
    if not rows:
        raise ResultsError('nothing here computed on an accelerator: accelerator = "cuda"')
    grouped = pd.DataFrame(rows).groupby(
        list(_PHASE_KEYS), as_index=False, sort=False, dropna=False
    )
    medians = grouped[["wall_s", *_FIGURES]].median()
    medians["copy_share"] = (medians["to_s"] + medians["from_s"]) / medians["wall_s"]
    return medians


def _accelerator_rows(record: TrialRecord) -> Iterator[dict[str, Any]]:
    """One per phase of a round that counts, where both its time and its copies are known."""
    if record.accelerator is None or record.outcome != "ok":
        return
    stages = round_stages(record)
    wanted = STEADY if STEADY in stages.values() else START
    walls = {(p.phase, p.round, p.network): p.wall_s for p in record.phases}
    settings = settings_columns(record.settings)
    for use in record.accelerator.phases:
        phase, round_, network = str(use.get("phase")), use.get("round"), use.get("network")
        number = int(round_) if round_ is not None and is_count(round_) else NO_ROUND
        wall_s = walls.get((phase, number, network if isinstance(network, str) else None))
        counts = stages.get(number) == wanted or phase == _BEFORE_ROUNDS
        known = wall_s is not None and all(is_number(use.get(name)) for name in _FIGURES)
        if not counts or not known:
            continue
        yield {
            "point": record.point,
            "network": settings.get("network"),
            "batch": settings.get("batch"),
            "limit_label": record.limits.label,
            "accelerator_bytes": record.limits.accelerator_bytes,
            "phase": phase,
            "wall_s": wall_s,
            **{name: use[name] for name in _FIGURES},
        }


def accelerator_tables(results: Results) -> list[StudyTable]:
    """Make the table of each phase's time, copies and memory.

    Raises:
        ResultsError: as :func:`accelerator_frame`.
    """
    frame = accelerator_frame(results)
    columns = (
        Column("network", "network", words=True),
        Column("batch", "batch", "{:g}"),
        Column("limit_label", "limit", words=True),
        Column("accelerator_bytes", "accelerator's\nlimit, MiB", "{:.0f}", MIB),
        Column("phase", "phase", words=True),
        Column("wall_s", "ms", "{:.3f}", 1e-3),
        Column("to_bytes", "to it\nMiB", "{:.2f}", MIB),
        Column("to_s", "to it\nms", "{:.3f}", 1e-3),
        Column("from_bytes", "back\nMiB", "{:.2f}", MIB),
        Column("from_s", "back\nms", "{:.3f}", 1e-3),
        Column("copy_share", "copying", "{:.0%}"),
        Column("peak_allocated_bytes", "peak\nMiB", "{:.1f}", MIB),
    )
    says = ("medians of steady rounds; the peak is that of torch's allocator within the phase",)
    title = "Phases on an accelerator"
    return [StudyTable("accelerator", title, columns, frame_rows(frame), says)]
