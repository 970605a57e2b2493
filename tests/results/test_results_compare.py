"""compare: finds what got worse, seldom cries wolf, and refuses what can't be compared."""

from __future__ import annotations

import json
import math
import random
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace
from results_making import MIB, loading, make_sweep, usual_record
from scipy import stats

from edgebench.analysis.compare import compare_sweeps
from edgebench.analysis.comparison import (
    OverallComparison,
    PointComparison,
    SweepComparison,
    holm_correction,
    moderated_t_tests,
)
from edgebench.cli.compare import compare
from edgebench.errors import RegressionError, ResultsError, UsageError
from edgebench.records import LimitSetting, TrialRecord
from edgebench.report.builder import environment_table
from edgebench.results.results import load


def run_compare(*words: str | Path) -> Result:
    return CliRunner().invoke(compare, [str(word) for word in words])


#: Changes the usual record of a trial.
Change = Callable[[TrialRecord], TrialRecord]


def both(root: Path, after: Change, before: Change = lambda usual: usual) -> tuple[Path, Path]:
    """Two sweeps, each of its changed records."""
    return tuple(  # type: ignore[return-value]
        make_sweep(root, make=lambda *trial, change=change: change(usual_record(*trial)))
        for change in (before, after)
    )


def compared(a: Path, b: Path) -> SweepComparison:
    return compare_sweeps(load(a).sweeps[0], load(b).sweeps[0])


def slower(usual: TrialRecord) -> TrialRecord:
    """As usual, but loading at 150M takes half as long again."""
    if usual.limits.label != "150M":
        return usual
    scale = 6.0 * (1 + 0.01 * usual.block)
    return loading(
        usual.trial, label="150M", memory_bytes=150 * MIB, scale=scale, block=usual.block
    )


def test_a_regression_is_found_and_told(tmp_path: Path):
    """Half as long again at one limit: exit code 4, and the row that shows it."""
    done = run_compare(*both(tmp_path, slower))
    assert isinstance(done.exception, RegressionError)
    assert done.exception.exit_code == 4
    points = re.findall(r"^  (.+?)  +\S+ m?s", done.stdout, re.MULTILINE)
    assert {*points} == {"lenet 150M", "lenet 150M start", "lenet 150M load"}
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_change_of_all_times_is_found_where_no_single_one_shows_it(tmp_path: Path):
    chance = random.Random(8)

    def noisy(factor: float) -> Callable[[str, str, int], TrialRecord]:
        def made(*trial: Any) -> TrialRecord:
            usual = usual_record(*trial)
            phases = [
                replace(phase, wall_s=phase.wall_s * factor * chance.lognormvariate(0, 0.06))
                for phase in usual.phases
            ]
            return replace(usual, phases=phases)

        return made

    labels = ("max", "150M", "140M", "130M", "120M", "110M")
    a, b = (make_sweep(tmp_path, labels=labels, make=noisy(factor)) for factor in (1.0, 1.1))
    found = compared(a, b)
    overall = found.overall
    assert not found.regressions
    assert (overall.verdict, overall.times) == ("slower", 24)
    assert overall.ratio_low < 1.1 < overall.ratio_high
    done = run_compare(a, b)
    numbers = f"{overall.ratio:.2f}x over 24 times ({overall.ratio_low:.2f} to"
    assert done.stdout.startswith(numbers)
    assert isinstance(done.exception, RegressionError)
    assert numbers in str(done.exception)
    back = run_compare(b, a)
    assert back.exit_code == 0
    assert ", faster " in " ".join(back.stdout.split())
    assert json.loads(run_compare(a, a, "--json").stdout)["overall"]["verdict"] == "same"


def test_a_limit_no_longer_viable_is_a_regression(tmp_path: Path):
    a, b = both(
        tmp_path, lambda usual: replace(usual, outcome="oom-killed") if usual.limit_bytes else usual
    )
    verdicts = [row.verdict for row in compared(a, b).rows]
    assert verdicts.count("lost") == 1
    assert isinstance(run_compare(a, b).exception, RegressionError)


def test_more_demand_is_a_regression(tmp_path: Path):
    def hungry(usual: TrialRecord) -> TrialRecord:
        return replace(usual, demand_bytes=usual.demand_bytes and 300 * MIB + usual.block)

    regressions = compared(*both(tmp_path, hungry)).regressions
    assert [(row.quantity, row.verdict) for row in regressions] == [("demand", "more")]


def test_a_throughput_that_fell_is_a_regression(tmp_path: Path):
    def printing(rate: float) -> Change:
        def made(usual: TrialRecord) -> TrialRecord:
            settings = {**usual.settings, "new_tokens": 16}
            per_second = (rate if usual.limit_bytes else 40.0) * (1 + 0.01 * usual.block)
            return replace(usual, settings=settings, throughput_per_s=per_second)

        return made

    fast, slow = both(tmp_path, printing(10.0), printing(20.0))
    (worse,) = compared(fast, slow).regressions
    assert (worse.quantity, worse.verdict, worse.unit) == ("throughput", "slower", "tokens")
    assert worse.ratio == pytest.approx(0.5)
    done = run_compare(fast, slow)
    assert isinstance(done.exception, RegressionError)
    (row,) = (line for line in done.stdout.splitlines() if line.startswith("  lenet 150M"))
    assert "20.2 tokens/s  10.1 tokens/s  0.50x  slower" in row
    better = compared(slow, fast).rows
    assert [r.verdict for r in better if r.quantity == "throughput"] == ["same", "faster"]


def test_one_repeat_proves_nothing(tmp_path: Path):
    a = make_sweep(tmp_path, repeats=1)
    b = make_sweep(tmp_path, repeats=1, make=lambda *trial: slower(usual_record(*trial)))
    done = run_compare(a, b)
    assert done.exit_code == 0
    assert "3 same, 9 unsure" in done.stdout


def test_sweeps_with_nothing_in_common_are_refused(tmp_path: Path):
    a, b = make_sweep(tmp_path), make_sweep(tmp_path, labels=("150M",))
    c = make_sweep(tmp_path, labels=("max",))
    assert run_compare(a, b).exit_code == 0
    assert "only in old: lenet · linear · copy · batch 1 at max" in run_compare(a, b).stdout
    assert isinstance(run_compare(b, c).exception, ResultsError)


def test_older_sweeps_are_compared_with_those_that_left_the_collector_on(tmp_path: Path):
    """Records without the key ran with it on: they pair with that, and with nothing else."""
    old, on = both(
        tmp_path, lambda usual: replace(usual, settings={**usual.settings, "gc": "default"})
    )
    assert compared(old, on).only_a == []
    assert set(load(old).trials["gc"]) == {"default"}


@pytest.mark.promise(
    "What else reclaims memory (DAMON, zswap, the multi-generation LRU, daemons, balloons) "
    "and the disks of swap and weights are recorded, each as a value or a reason; `doctor` "
    "lists what disturbs trials, `compare` how two sweeps' machines differed."
)
def test_a_machine_that_differed_is_told(tmp_path: Path):
    paths = [make_sweep(tmp_path), make_sweep(tmp_path)]
    for path, threads in zip(paths, ([], ["kdamond.0"]), strict=True):
        told = {"schema": 1, "swappiness": 0, "damon": {"running": threads}}
        (path / "environment.json").write_text(json.dumps(told))
    line = "DAMON: running none in a, running kdamond.0 in b"
    done = run_compare(*paths)
    assert f"the machines differ: {line}" in " ".join(done.stdout.split())
    assert json.loads(run_compare(*paths, "--json").stdout)["machine"] == [line]
    rows = environment_table(load(paths[1]).environment).rows
    assert ["DAMON", "running kdamond.0"] in rows
    assert ["swappiness", "0"] in rows


def test_a_threshold_is_a_share(tmp_path: Path):
    """Half as long again passes below a threshold of 80 %; nonsense is a usage error."""
    a, b = both(tmp_path, slower)
    assert run_compare(a, b, "--threshold", "80%").exit_code == 0
    assert isinstance(run_compare(a, b, "--threshold", "much").exception, UsageError)


def test_a_lone_comparison_is_student_s():
    a, b = [1.0, 1.1, 0.9, 1.05], [1.2, 1.3, 1.25]
    alone, same, exact = moderated_t_tests([(a, b), (a, a), ([1, 1], [2, 2])], alpha=0.01)
    books = stats.ttest_ind(b, a)
    assert alone.p == pytest.approx(books.pvalue)
    assert same.p == pytest.approx(1)
    assert exact.p == 0
    interval = books.confidence_interval(0.95)
    ends = math.log(alone.ratio_low), math.log(alone.ratio_high)
    assert ends == pytest.approx((interval.low, interval.high))
    # A change of it is found 19 times in 20: so far is it from what chance makes of 1 in 100.
    error = (statistics.fmean(b) - statistics.fmean(a)) / books.statistic
    least = (stats.t.ppf(0.995, 5) + stats.t.ppf(0.95, 5)) * error
    assert math.log(alone.least_ratio) == pytest.approx(least)


def test_spreads_that_are_all_one_are_pooled():
    chance = random.Random(5)

    def repeats(middle: float) -> list[float]:
        return [chance.gauss(middle, 0.02) for _ in range(3)]

    tested = moderated_t_tests([(repeats(0.0), repeats(0.1)) for _ in range(400)])
    error = 0.02 * (2 / 3) ** 0.5
    halves = [math.log(one.ratio_high / one.ratio_low) / 2 for one in tested]
    assert statistics.median(halves) == pytest.approx(1.96 * error, rel=0.1)


def test_holm_corrects_step_by_step():
    """A worked example: ordered p-values times 4, 3, 2, 1, never falling."""
    assert holm_correction([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_how_small_a_change_shows_and_how_many_repeats_show_less():
    """1.21 is the middle of three times, with 3 repeats at least; ln 1.21 / ln 1.05 is 3.91."""
    limits = LimitSetting("80M", 80 * MIB)

    def row(quantity: str, repeats: tuple[int, int], least: float | None) -> PointComparison:
        return PointComparison("n", limits, quantity, 1, 2, *repeats, "same", least_ratio=least)

    rows = [row("load", (4, 3), 1.331), row("total", (5, 6), 1.1), row("first", (7, 8), 1.21)]
    rows += [row("throughput", (9, 9), 9.0), row("execute", (2, 2), None)]
    overall = OverallComparison(3, 1.0, 0.9, 1.2, "same", "points", 1.1)
    found = SweepComparison(rows, [], [], overall)
    assert found.least_times_ratio == 1.21
    # 3 · 3.907², and 3 · (ln 1.1 / ln 1.05)² = 3 · 1.953².
    assert (found.repeats_for(1.05, 1.21), found.repeats_for(1.05, 1.1)) == (46, 12)
