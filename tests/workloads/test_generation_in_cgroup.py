"""Text generation in a real cgroup: its phases, its throughput, and each byte of its memory."""

from __future__ import annotations

import pytest

from edgebench.analysis.reconciliation import reconcile_sweep
from edgebench.results.results import Results, load
from edgebench.run.sweep.sweep import SweepOptions, run_sweep
from edgebench.scenario.scenario import load_scenario
from tests.quiet import Quiet

pytest.importorskip("transformers")
pytestmark = [pytest.mark.own_cgroup, pytest.mark.torch, pytest.mark.long]
MIB = 1 << 20
PROMPT, NEW = 256, 8
#: Two layers, keys and values of 256 numbers of four bytes each.
TOKEN_BYTES = 2 * 2 * 256 * 4
#: Embedding and head are this one tensor.
TIED_BYTES = 4000 * 256 * 4
SCENARIO = f"""
schema = 1
name = "generation"
repeats = 1
timeout = "2m"
[workload]
kind = "inference"
network = "transformers:gpt2?n_layer=2&n_embd=256&n_head=4&vocab_size=4000&n_positions=300"
prompt = {PROMPT}
new_tokens = {NEW}
rounds = 1
threads = 1
[memory]
strategies = ["process", "torch"]
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("generation")
    file = folder / "scenario.toml"
    file.write_text(SCENARIO)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEBENCH_CACHE", str(folder / "cache"))
        summary = run_sweep(load_scenario(file), SweepOptions(folder, "here"), Quiet())
    assert summary.outcomes == {"ok": 1}
    return load(summary.folder)


def test_both_phases_and_tokens_per_second(results: Results) -> None:
    (record,) = results.sweeps[0].records
    phases = {phase.phase: phase for phase in record.phases}
    assert phases["prefill"].wall_s > 0
    assert phases["decode"].passes == NEW - 1
    assert record.throughput_per_s == pytest.approx((NEW - 1) / phases["decode"].wall_s)
    assert record.demand_bytes is not None
    assert record.demand_bytes > TIED_BYTES


def test_cache_and_tied_weights_are_explained(results: Results) -> None:
    (point,) = reconcile_sweep(results.sweeps[0])
    ends = {(one.source.strategy, one.target.strategy): one for one in point.ledgers}
    ledger = ends["torch", "analytic"]
    cache = next(term for term in ledger.terms if term.name == "key-value-cache")
    assert 0 < -cache.size_bytes <= PROMPT * TOKEN_BYTES
    assert abs(ledger.unexplained_bytes) < MIB / 4, ledger.to_json()
