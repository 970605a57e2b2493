"""What is fitted of each trial: its start, the seconds of its steady rounds, and its throughput.

A phase's seconds are the median over the steady rounds, per pass. Where only one round was run,
they are that round's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from edgebench.results.frames import answering_rows
from edgebench.results.stages import START
from edgebench.throughput import THROUGHPUT

if TYPE_CHECKING:
    from edgebench.results.results import Results

#: The phases that are fitted, in the order they are shown. ``total`` is a steady round's time on
#: the clock, or the whole trial's where a workload has no rounds; ``start`` is the first round's.
#: Where only one round was run, that is ``total``, and there is no ``start`` beside it. The seconds
#: of ``throughput`` are those of one of its units.
PHASES = (
    *("load", "first", "execute", "prefill", "decode", "data", "forward", "backward", "step"),
    "graph",
    *("start", "total", THROUGHPUT),
)
#: Those of inference: the only ones that models of layers and of the device predict.
INFERENCE = ("load", "first", "execute", "start", "total")
#: Those that are a whole round.
WHOLES = ("start", "total")


def seconds_by_trial(results: Results) -> pd.DataFrame:
    """One row per trial, network and phase of :data:`PHASES`: seconds of one pass."""
    phases = results.phases
    phases = phases[(phases["outcome"] == "ok") & phases["phase"].isin([*PHASES, "round"])].copy()
    phases["phase"] = phases["phase"].replace("round", "total")
    phases["seconds"] = phases["wall_s"] / phases["passes"]
    trials = _wholes(results, phases[phases["phase"] == "total"])
    keys = ["sweep", "trial", "network", "phase"]
    parts = [part for part in (trials, _throughputs(results)) if len(part)]
    rounds = _with_starts(phases)
    rows = pd.concat([rounds, *parts], ignore_index=True) if parts else rounds
    seconds = rows.groupby(keys, dropna=False)["seconds"].median()
    first = rows.drop_duplicates(keys).drop(columns="seconds")
    joined = first.merge(seconds.reset_index(), on=keys)
    joined["memory_bytes"] = joined["limit_bytes"].fillna(joined["memory_bytes"])
    return joined


def _with_starts(phases: pd.DataFrame) -> pd.DataFrame:
    """The rows that answer; and ``start``, where that is another answer than ``total``."""
    answering = answering_rows(phases)
    others = phases.index.difference(answering.index)
    is_start = (phases["stage"] == START) & (phases["phase"] == "total")
    starts = phases[is_start & phases.index.isin(others)].assign(phase=START)
    # By the rows' own order: a trial's start comes before its steady rounds.
    return pd.concat([answering, starts]).sort_index(kind="stable")


def _wholes(results: Results, rounds: pd.DataFrame) -> pd.DataFrame:
    """Trials without rounds: the whole trial is their ``total``."""
    trials = results.trials
    with_rounds = set(zip(rounds["sweep"], rounds["trial"], strict=True))
    names = zip(trials["sweep"], trials["trial"], strict=True)
    without = np.array([name not in with_rounds for name in names], dtype=bool)
    whole = trials[(trials["outcome"] == "ok") & without]
    named = whole["network"].where(whole["network"].notna(), whole["command"])
    # A copy in one piece: its many columns were added one by one.
    return whole.copy().assign(
        network=named, pipeline=named, phase="total", seconds=whole["wall_s"]
    )


def _throughputs(results: Results) -> pd.DataFrame:
    """Trials with a throughput: seconds of one of its units."""
    trials = results.trials
    counted = trials[(trials["outcome"] == "ok") & (trials["throughput_per_s"] > 0)]
    named = counted["network"].where(counted["network"].notna(), counted["command"])
    seconds = 1 / counted["throughput_per_s"]
    return counted.copy().assign(network=named, pipeline=named, phase=THROUGHPUT, seconds=seconds)
