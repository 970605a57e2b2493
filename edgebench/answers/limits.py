"""What memory limits do to a workload: the limits, the layers to blame, and what helps.

Rows are made here for every verb, the page and reports.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgebench.answers.table import (
    Table,
    brief_factor,
    factor,
    filled_table,
    headline,
    median,
    seconds,
    share,
    size,
    size_cells,
    slowdown,
    time_cells,
)
from edgebench.answers.trials import end_word, end_words
from edgebench.need import differs
from edgebench.results.times import START, STEADY, Ratio
from edgebench.text import MIB, printable, shortened

if TYPE_CHECKING:
    from edgebench.analysis.layer_costs import LayerCostTable, LayerRow, PassCost
    from edgebench.results.derived import KeptAdvice
    from edgebench.results.facts import PointFacts, WorkloadFacts
    from edgebench.run.advise.advice import Advice

#: A workload's table has no more rows on a terminal, unless all are asked for.
_MOST_ROWS = 10
#: Layers named in one line, and those with less than this share are summed up with the others.
_NAMED, _LEAST_SHARE = 3, 0.05
#: A table has no more layers, unless all are asked for.
_MOST_LAYERS = 8
#: From this overlap on, the layers' times add up to more than elapsed time.
OVERLAPS = 1.01
#: Trials that finish with less than this share of the need refute it.
_LESS = 0.9
#: Limits are told as slow together whose slowdown is above this part of the worst.
_AS_SLOW = 0.7
_ENDS = {"timeout": "stopped", "changed": "other results"}


@dataclass(frozen=True)
class LimitRow:
    """What happened at one limit.

    ``time_s`` is of a whole trial where it has no rounds, else there are ``start_s`` and
    ``round_s``. ``stopped_s`` is how long trials ran that were stopped, if none finished.
    ``ended`` says how trials ended that did not finish, and in which layer.
    """

    limit: str
    limit_bytes: int | None
    finished: int
    trials: int
    time_s: float | None = None
    start_s: float | None = None
    round_s: float | None = None
    throughput_per_s: float | None = None
    slower: Ratio | None = None
    peak_bytes: float | None = None
    read_again_bytes: float | None = None
    stopped_s: float | None = None
    ended: str = ""
    give: bool = False

    @property
    def all_finished(self) -> bool:
        """Whether there is a trial, and all finished."""
        return 0 < self.finished == self.trials

    @property
    def mark(self) -> str:
        """``<- give``, or how trials ended that did not finish."""
        return self.ended or ("<- give" if self.give else "")


@dataclass(frozen=True)
class WorkloadAnswer:
    """What a workload needs, what to give it, and the trials behind both.

    Args:
        name: of the workload.
        needs_bytes: the least and the most that runs without a limit used; None: not known.
        refuted: whether trials finished with clearly less, or failed with more.
        growing: whether it still grew when it was stopped, so that no need can be told.
        give_bytes: the least limit at which all trials finished, at most as slow as asked for.
        swap_kind, swap_bytes: the swap that was there.
        rows: the widest limit first.
        unit: what the throughput counts.
        knee_bytes: where rounds begin to read memory again.
        board: the name of the emulated board.
        library_bytes: libraries that it maps, which no limit counts.
    """

    name: str
    needs_bytes: tuple[float, float] | None
    refuted: bool
    growing: bool
    give_bytes: int | None
    swap_kind: str
    swap_bytes: int | None
    rows: tuple[LimitRow, ...]
    unit: str = ""
    knee_bytes: int | None = None
    board: str | None = None
    library_bytes: float | None = None

    @property
    def knee(self) -> str:
        """``242 MiB``; empty where there is none."""
        return size(self.knee_bytes) if self.knee_bytes else ""

    @property
    def slow(self) -> tuple[float, int] | None:
        """How slow it is at its tightest limits, and from which limit down; None: below 2."""
        known = [r for r in self.rows if r.limit_bytes and r.slower]
        worst = max((row.slower.median for row in known if row.slower), default=0.0)
        if worst < 2:
            return None
        group: list[tuple[float, int]] = []
        for row in reversed(known):
            if not row.slower or not row.limit_bytes or row.slower.median < _AS_SLOW * worst:
                break
            group.append((row.slower.median, row.limit_bytes))
        if not group:
            return None
        return statistics.median(factor for factor, _ in group), group[-1][1]


def workload_answer(workload: WorkloadFacts, name: str = "") -> WorkloadAnswer:
    """Make the answer of a workload; ``name``: instead of its own."""
    free = workload.unlimited
    good = workload.bracket().good
    give = round(good.limit_bytes) if good else None
    rows = [
        _row(point, workload, give) for point in workload.points if point.outcomes or point.planned
    ]
    limits, needs, refuted = workload.limits, workload.needs_bytes, False
    if needs is not None:
        is_less = give is not None and give < _LESS * needs[0] and differs(give, needs[0])
        too_low = is_less and limits.swap_kind == "none"
        above = [row for row in rows if row.limit_bytes and row.limit_bytes > needs[1] / _LESS]
        refuted = too_low or any(row.ended for row in above)
    curve = workload.miss_curve
    return WorkloadAnswer(
        name=name or workload.name,
        needs_bytes=needs,
        refuted=refuted,
        growing=workload.unmeasured.growth is not None,
        give_bytes=give,
        swap_kind=limits.swap_kind,
        swap_bytes=limits.swap_bytes,
        rows=tuple(rows),
        unit=free.unit if free else "",
        knee_bytes=curve.knee_bytes if curve else None,
        board=limits.board,
        library_bytes=workload.library_bytes,
    )


def _row(point: PointFacts, workload: WorkloadFacts, give: int | None) -> LimitRow:
    times = {name: spread.median for name, spread in point.times_s.items()}
    again = point.read_again_bytes
    counted = workload.miss_curve is not None and "ok" in point.outcomes
    return LimitRow(
        limit=point.limits.label,
        limit_bytes=None if point.is_unlimited else point.limit_bytes,
        finished=point.outcomes.get("ok", 0),
        # A walk may come to a limit more often than trials were planned.
        trials=max(point.planned or 0, point.made),
        time_s=None if workload.has_rounds else times.get("total"),
        start_s=times.get(START),
        round_s=times.get(STEADY),
        throughput_per_s=median(point.throughput_per_s),
        slower=Ratio(1.0) if point is workload.unlimited else point.ratio,
        peak_bytes=median(point.peak_bytes),
        read_again_bytes=0 if counted and again is None and point.is_unlimited else again,
        stopped_s=None if times else point.stopped_s,
        ended=end_words(point.outcomes, point.ended_in),
        give=give is not None and point.limit_bytes == give and not point.is_unlimited,
    )


def limits_table(answer: WorkloadAnswer, *, every: bool = False, peaks: bool = False) -> Table:
    """Make the table of limits; without ``every`` at most so many rows as a terminal needs."""
    rows = answer.rows if every else _shown(answer.rows)
    sizes = size_cells([row.limit_bytes for row in rows])
    rates = [row.throughput_per_s for row in rows]
    times = time_cells([row.time_s or row.stopped_s for row in rows])
    reads_again = any(row.read_again_bytes for row in rows)
    columns = [
        [cell or "none" for cell in sizes],
        [f"{row.finished}/{row.trials}" for row in rows],
        [">" * bool(row.stopped_s) + time for row, time in zip(rows, times, strict=True)],
        time_cells([row.start_s for row in rows]),
        time_cells([row.round_s for row in rows]),
        ["" if rate is None else f"{rate:.3g}" for rate in rates],
        [slowdown(row.slower) for row in rows],
        size_cells([row.peak_bytes if peaks else None for row in rows]),
        size_cells([row.read_again_bytes if reads_again else None for row in rows]),
        [row.mark for row in rows],
    ]
    titles = ["limit", "ok", "time", "start", "round", f"{answer.unit or 'lines'}/s", "slower"]
    titles += ["peak", "read again", ""]
    return filled_table(titles, zip(*columns, strict=True), "limit", "ok", "")


def _shown(rows: Sequence[LimitRow]) -> Sequence[LimitRow]:
    """Return the rows around what the headline says, and others between them."""
    if len(rows) <= _MOST_ROWS:
        return rows
    last = len(rows) - 1
    give = next((n for n, row in enumerate(rows) if row.give), 0)
    lost = next((n for n, row in enumerate(rows) if row.ended), last)
    wanted = [0, give, min(give + 1, last), lost, max(lost - 1, 0), last, 1, max(give - 1, 0)]
    wanted += [round(n * last / _MOST_ROWS) for n in range(_MOST_ROWS)]
    kept = sorted([*dict.fromkeys(wanted)][:_MOST_ROWS])
    return [rows[n] for n in kept]


def answer_headline(answer: WorkloadAnswer, *more: str) -> str:
    """Format what it needs and what to give it; ``more`` follows."""
    parts = [needs_words(answer)]
    if any(row.limit_bytes and row.trials for row in answer.rows):
        parts.append(f"give {size(answer.give_bytes)}{swap_words(answer)}")
    if answer.slow:
        parts.append(f"{brief_factor(answer.slow[0])} below {size(answer.slow[1])}")
    return headline(shortened(printable(answer.name)), *parts, *more)


def needs_words(answer: WorkloadAnswer) -> str:
    """``needs 471 MiB``, ``needs 382 to 471 MiB``; ``uses …`` where trials refute it."""
    verb = "held" if answer.growing else "uses" if answer.refuted else "needs"
    if answer.needs_bytes is None:
        return f"{verb} ?"
    low, high = answer.needs_bytes
    if not differs(low, high):
        return f"{verb} {size(high)}"
    first, last = size(low), size(high)
    number, _, unit = first.partition(" ")
    return f"{verb} {number if last.endswith(unit) else first} to {last}"


def swap_words(answer: WorkloadAnswer) -> str:
    """`` + 2 GiB swap``, as it was measured; empty without swap."""
    if answer.swap_kind == "none" or answer.give_bytes is None:
        return ""
    kind = "" if answer.swap_kind == "file" else f" ({answer.swap_kind})"
    amount = f" {size(answer.swap_bytes)}" if answer.swap_bytes else ""
    return f" +{amount} swap{kind}"


def paste_lines(answer: WorkloadAnswer) -> dict[str, str]:
    """Lines for Docker and Podman, systemd and Kubernetes; none where the swap can't be written."""
    give, swap = answer.give_bytes, answer.swap_bytes
    if answer.swap_kind == "none":
        swap = 0
    if give is None or swap is None:
        return {}
    most = _short(give)
    lines = {
        "docker": f"docker run --memory={most.lower()} --memory-swap={_short(give + swap).lower()}",
        "systemd": f"systemd-run -p MemoryMax={most} -p MemorySwapMax={_short(swap)}",
    }
    if not swap:
        # A pod has no swap of its own.
        resources = f'requests: {{memory: "{most}i"}}, limits: {{memory: "{most}i"}}'
        lines["kubernetes"] = f"resources: {{{resources}}}"
    return lines


def _short(size_bytes: int) -> str:
    """``412M``, ``8192K``; rounded up."""
    if size_bytes % MIB == 0 or size_bytes >= 64 * MIB:
        return f"{-(-size_bytes // MIB)}M" if size_bytes else "0"
    return f"{-(-size_bytes // 1024)}K"


def overview_table(answers: Iterable[WorkloadAnswer]) -> Table:
    """Make a table of many workloads, one row each."""
    every = list(answers)
    needs = size_cells([answer.needs_bytes[1] if answer.needs_bytes else None for answer in every])
    gives = size_cells([answer.give_bytes for answer in every])
    rows = []
    for answer, need, give in zip(every, needs, gives, strict=True):
        limited = [row for row in answer.rows if row.limit_bytes]
        fine = sum(row.all_finished for row in limited)
        free = next((row for row in answer.rows if row.limit_bytes is None), None)
        rate = free and free.throughput_per_s
        worst = max((r.slower.median for r in limited if r.slower), default=None)
        known = (free.round_s, free.start_s, free.time_s) if free else ()
        pace = next((seconds(time) for time in known if time is not None), "")
        rows.append(
            [
                *(printable(answer.name), need, give),
                *(f"{fine}/{len(limited)}" if limited else "", pace),
                *(f"{rate:.3g}" if rate else "", factor(worst)),
            ]
        )
    titles = ("workload", "needs", "give", "ok at", "time", "per s", "slowest")
    return filled_table(titles, rows, "workload")


def blame_words(table: LayerCostTable, cost: PassCost) -> str:
    """``at 231 MiB: classifier.1 +62 %, classifier.4 +27 %, others 11 %``."""
    label = cost.at.label
    worst = sorted(table.layers, key=lambda row: -_extra_share(row, label))[:_NAMED]
    named = [
        row
        for row in worst
        if row.at[label].surely_slower and _extra_share(row, label) >= _LEAST_SHARE
    ]
    if not named:
        return ""
    words = [f"{layer_name(table, row)} +{share(_extra_share(row, label))}" for row in named]
    rest = 1 - sum(_extra_share(row, label) for row in named)
    more = [f"others {share(rest)}"] if rest >= 0.005 else []
    return f"at {size(cost.at.limit_bytes)}: {', '.join([*words, *more])}"


def _extra_share(row: LayerRow, label: str) -> float:
    return row.at[label].extra_share or 0.0


def layers_headline(table: LayerCostTable, cost: PassCost | None, name: str, needs: str) -> str:
    """Return what a round takes at the limit, and what the network needs."""
    if cost is None:
        return headline(name, f"{seconds(table.unlimited.clock_s.median)} a round", needs)
    took = f"{seconds(cost.at.clock_s.median)} a round, {factor(cost.slowdown)}"
    more = f" (+{seconds(cost.extra_s)})" if cost.extra_s > 0 else ""
    return headline(f"{name} at {size(cost.at.limit_bytes)}", took + more, needs)


def layers_table(
    table: LayerCostTable, rows: Sequence[LayerRow], cost: PassCost | None, *, every: bool = False
) -> Table:
    """Make the table of the layers, in this order, at a limit; None: without one."""
    shown = list(rows) if every or len(rows) <= _MOST_LAYERS + 1 else list(rows[:_MOST_LAYERS])
    groups = [*([row] for row in shown), *([rows[len(shown) :]] if len(shown) < len(rows) else [])]
    names = [
        layer_name(table, group[0]) if n < len(shown) else f"{len(group)} others"
        for n, group in enumerate(groups)
    ]
    weights = [sum(row.parameter_bytes or 0 for row in group) or None for group in groups]
    label = cost.at.label if cost else ""
    phases = [[row.at[label].steps if cost else row.unlimited for row in group] for group in groups]
    peaks = [one[0].peak_bytes if len(one) == 1 and not cost else None for one in phases]
    faults = [sum(step.major_faults or 0 for step in one) if cost else 0 for one in phases]
    extra = [sum(row.at[label].extra_s for row in group) if cost else None for group in groups]
    shares = [
        sum(_extra_share(row, label) if cost else row.share for row in group) for group in groups
    ]
    load, run = (
        [sum(getattr(s, k) for s in one) for one in phases] for k in ("load_s", "execute_s")
    )
    glue = cost.glue_extra_s if cost else table.unlimited.glue_s
    glue_share = cost.glue_extra_share if cost else glue / table.unlimited.sum_s
    columns = [
        [*names, "between layers"],
        [*size_cells(weights), ""],
        [*time_cells(load), ""],
        [*time_cells(run), ""],
        time_cells([*extra, glue if cost else None]),
        [*(f"{count:,.0f}" if count else "" for count in faults), ""],
        [*size_cells(peaks), ""],
        [*map(share, shares), share(glue_share)],
    ]
    titles = ["layer", "weights", "load", "run", "extra", "faults", "peak", "share"]
    return filled_table(titles, zip(*columns, strict=True), "layer")


def layer_name(table: LayerCostTable, row: LayerRow) -> str:
    """Its name, with the network's in a pipeline."""
    several = len({layer.network for layer in table.layers}) > 1
    return printable(f"{row.network} {row.name}" if several else row.name)


def layer_warnings(table: LayerCostTable) -> list[str]:
    """Return what a reader of the layers' times must know."""
    passes = [table.unlimited, *(cost.at for cost in table.costs)]
    warnings = []
    if any(one.overlap > OVERLAPS for one in passes):
        warnings.append("layers overlap: their times add up to more than a round takes")
    if all(one.clock_s.count == 1 for one in passes):
        warnings.append("one trial per limit: --repeats 3 shows how far they differ")
    if all(row.unlimited.peak_bytes is None for row in table.layers):
        warnings.append("no peaks of layers: this engine or kernel does not tell them")
    return warnings


def advice_headline(advice: Advice | KeptAdvice) -> str:
    """``python3 train.py at 250 MiB   56 s as it is (1.30x)   7 trials, 6 min 42 s``."""
    plain = end_word(advice.plain_end)
    if advice.plain_s is not None:
        slower = f" ({factor(advice.slowdown)})" if advice.slowdown else ""
        plain = f"{seconds(advice.plain_s)} as it is{slower}"
    took = f"{advice.trials} trials, {seconds(advice.total_s)}"
    name = shortened(printable(advice.name))
    idle = "" if advice.pressed else "the limit costs nothing: no remedy was tried"
    return headline(f"{name} at {size(advice.limit_bytes)}", plain, idle, took)


def advice_table(advice: Advice | KeptAdvice) -> Table:
    """Make the table of remedies, the fastest first; the remedy that is advised is marked."""
    best = advice.best if advice.best and advice.best.confirmed else None
    times = time_cells([remedy.seconds or remedy.stopped_s for remedy in advice.tried])
    rows = []
    for remedy, time in zip(advice.tried, times, strict=True):
        is_best = best is not None and remedy.name == best.name
        ratio = best.ratio if is_best and best and best.ratio else remedy.ratio
        counted = best if is_best and best else remedy
        ended = "" if remedy.end == "ok" else _ENDS.get(remedy.end) or end_word(remedy.end)
        change = f"may change {remedy.changes}" if remedy.changes else ""
        mark = "<- " + "; ".join(best.typed) if is_best and best else ended or change
        ok, late = f"{counted.finished}/{counted.trials}", ">" * bool(remedy.stopped_s)
        rows.append([remedy.name, late + time, f"{ratio:.2f}x" if ratio else "", ok, mark])
    return filled_table(("remedy", "time", "of that", "ok", ""), rows, "remedy", "")
