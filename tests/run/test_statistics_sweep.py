"""``stat_interval``: limited points get trials of their own in which memory.stat is sampled."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgebench.results.results import Results, load
from edgebench.run.sweep.sweep import SweepOptions, run_sweep
from edgebench.scenario.preview import preview, this_machine
from edgebench.scenario.scenario import Scenario, load_scenario
from tests.quiet import Quiet

SCENARIO = """
schema = 1
name = "tiny"
repeats = 1
timeout = "20s"
[workload]
kind = "command"
command = ["python3", "-I", "-S", "-c", "import time; b = b'x' * (30 << 20); time.sleep(1)"]
[limits]
memory = ["max", "100M"]
[sampler]
interval = "1ms"
{interval}
"""


def scenario(folder: Path, interval: str) -> Scenario:
    file = folder / "s.toml"
    file.write_text(SCENARIO.format(interval=interval))
    return load_scenario(file)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("asked")
    made = scenario(folder, 'stat_interval = "5ms"')
    return load(run_sweep(made, SweepOptions(folder, "here"), Quiet()).folder)


def test_only_limited_points_get_the_trial(tmp_path: Path) -> None:
    """Asked for by an interval, it is one trial more; unlimited trials tell the same anyway."""
    without, asked = scenario(tmp_path, ""), scenario(tmp_path, 'stat_interval = "5ms"')
    assert (without.strategies, asked.strategies) == ((), ("statistics",))
    machine = this_machine()
    assert [preview(one, machine).own_trials for one in (without, asked)] == [0, 1]
    assert without.fingerprint() != asked.fingerprint()


@pytest.mark.promise("Statistics under a limit come from a separate trial.")
@pytest.mark.own_cgroup
def test_statistics_come_from_a_trial_of_their_own(asked: Results) -> None:
    results, sweep = asked, asked.sweeps[0]
    by_limit = {record.limits.label: record for record in sweep.records}
    assert [record.strategy for record in sweep.strategy_records] == ["statistics"]
    own = sweep.strategy_records[0]
    assert own.limits.label == "100M"
    assert own.watched is not None
    assert own.watched.stat_interval_s == 0.005
    assert "anon_bytes" not in results.stat(by_limit["100M"].trial)
    assert results.stat(own.trial)["anon_bytes"].max() >= 30 << 20
    assert results.stat(by_limit["max"].trial)["anon_bytes"].max() >= 30 << 20
    assert by_limit["max"].demand_bytes is not None
    reading = sweep.reading(own.trial)
    assert reading.peak_bytes == own.sampled_peak_bytes
    frame = results.trials.set_index("limit_label")
    assert (frame.loc["100M", "watched_flushes"], frame.loc["max", "watched_flushes"]) == (0, 1)
