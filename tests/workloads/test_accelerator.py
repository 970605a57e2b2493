"""Computing on an accelerator: a made-up one at the edge, real torch in all else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerator_fakes import COPY_S, TOTAL_BYTES, FakeRuntime
from training_making import Told, inference, settings, trained

from edgebench.errors import AcceleratorMemoryError, MachineError, WorkloadError
from edgebench.layers.accelerator import Accelerator, is_accelerator_memory_error, is_memory_error
from edgebench.layers.examination import examine
from edgebench.layers.names import CUDA
from edgebench.layers.pipeline import prepare_weights
from edgebench.workloads.engines.engine import run_inference
from edgebench.workloads.engines.torch import start_accelerator
from edgebench.workloads.training.loop import run_training

pytestmark = pytest.mark.torch


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgebench.layers.accelerator.CudaRuntime", FakeRuntime)


def test_a_step_s_copies_are_told_by_phase(made_up: None):
    told = _trained(network="lenet", data="digits", image=28, batch=4, steps=2, accelerator=CUDA)
    phases = _phases(told)
    images, labels = 4 * 28 * 28, 4 * 8
    for number in (0, 1):
        data = phases["data", number]
        assert data["to_bytes"] == images + labels
        assert data["to_s"] == pytest.approx(2 * COPY_S)
        assert phases["forward", number]["to_bytes"] == 0
        assert phases["backward", number]["from_bytes"] == 4
        whole = phases["round", number]
        assert (whole["to_bytes"], whole["from_bytes"]) == (images + labels, 4)
    weights = sum(p.nbytes for p in _lenet_parameters())
    assert phases["init", None]["to_bytes"] == weights
    total = _lines(told)[-1]["total"]
    assert total["to_bytes"] == weights + 2 * (images + labels)
    assert total["from_bytes"] == 2 * 4


def test_numbers_are_those_of_the_processor(made_up: None):
    workload = {"network": "lenet", "data": "digits", "image": 28, "batch": 4, "steps": 3}
    there = _trained(**workload, accelerator=CUDA)
    assert there.losses == trained(**workload).losses


def test_each_boundary_waits(made_up: None):
    """Or a phase's time would be that of asking, and the next one's that of computing."""
    told = _trained(network="lenet", data="digits", image=28, batch=4, steps=1, accelerator=CUDA)
    assert FakeRuntime.current is not None
    # Ends of import, init, the last phase before what is held is told, and the round; starts of
    # init, the round and its four phases.
    assert FakeRuntime.current.waits == 4 + 6
    assert [phase for phase, _, _ in told.spans][2:] == [
        *("round", "data", "forward", "backward", "step"),
    ]


def test_a_layer_s_weights_are_copied_as_it_is_loaded(made_up: None, tmp_path: Path):
    folder, files = prepare_weights(examine("lenet", {}), tmp_path, 0)
    told = _Events()
    run_inference(inference(folder, warm=0, page_cache="warm", accelerator=CUDA), told)
    told.flush()
    phases = _phases(told)
    loaded = sum(p.nbytes for p in _lenet_parameters())
    for number in (0, 1):
        assert phases["load", number]["to_bytes"] == loaded
        assert phases["first", number]["to_bytes"] == 0
        assert phases["round", number]["to_bytes"] == loaded
        assert phases["round", number]["from_bytes"] == 10 * 4
    assert phases["init", None]["to_bytes"] == 28 * 28 * 4
    assert files


def test_peaks_are_those_of_their_phase(made_up: None):
    held = 5 << 20
    told = _Events()
    run = settings(network="lenet", data="digits", image=28, batch=4, steps=1, accelerator=CUDA)
    with told.span("import"):
        start_accelerator(run, told)
    runtime = FakeRuntime.current
    assert runtime is not None
    with told.phases(0, "lenet") as round_phases:
        round_phases.begin("data")
        round_phases.begin("forward")
        runtime.allocate(held)
        runtime.free(held)
        round_phases.begin("backward")
    phases = _phases(told)
    assert phases["forward", 0]["peak_allocated_bytes"] == held
    assert phases["forward", 0]["peak_reserved_bytes"] == 2 * held
    assert phases["round", 0]["peak_allocated_bytes"] == held
    assert phases["data", 0]["peak_allocated_bytes"] == 0
    assert phases["backward", 0]["peak_allocated_bytes"] == 0


def test_its_memory_running_out_is_an_error_of_its_own(
    made_up: None, monkeypatch: pytest.MonkeyPatch
):
    run = settings(network="lenet", data="digits", image=28, batch=4, steps=1, accelerator=CUDA)
    monkeypatch.setattr(torch.nn.Conv2d, "forward", _out_of_memory)
    told = _Events()
    with (
        pytest.raises(AcceleratorMemoryError, match="Tried to allocate"),
        told.reported_accelerator(),
    ):
        run_training({**run, "accelerator_bytes": 1 << 20}, told)
    assert _lines(told)[-1]["total"]["ooms"] == 1


def test_other_errors_stay_what_they_are(made_up: None):
    with pytest.raises(ValueError, match="other"), _started().reported_accelerator():
        raise ValueError("other")
    assert is_accelerator_memory_error(torch.cuda.OutOfMemoryError("CUDA out of memory."))
    assert is_accelerator_memory_error(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"))
    assert not is_accelerator_memory_error(RuntimeError("shapes differ"))


def test_the_host_s_memory_is_told_from_the_accelerator_s():
    with pytest.raises(RuntimeError) as raised:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert is_memory_error(raised.value)
    assert not is_accelerator_memory_error(raised.value)


def test_a_limit_above_its_memory_is_refused(made_up: None):
    """It would limit nothing."""
    with pytest.raises(WorkloadError, match="has no effect"):
        Accelerator(TOTAL_BYTES + 1)


@pytest.mark.skipif(torch.version.cuda is not None, reason="this torch has CUDA")
def test_a_torch_without_cuda_says_so():
    with pytest.raises(MachineError, match="this torch has no CUDA"):
        Accelerator()


@pytest.mark.gpu
def test_a_real_gpu_tells_its_copies_and_memory():
    gpu = Accelerator()
    gpu.use_since_last()
    there = gpu.to_accelerator(torch.ones(16 << 20, dtype=torch.uint8))
    back = gpu.to_host(there * 2)
    gpu.wait()
    use = gpu.use_since_last()
    assert back.sum() == 2 * (16 << 20)
    assert (use.to_bytes, use.from_bytes) == (16 << 20, 16 << 20)
    assert min(use.to_s, use.from_s) > 0
    assert use.peak_reserved_bytes >= use.peak_allocated_bytes >= 32 << 20


@pytest.mark.gpu
def test_a_real_gpu_s_training_has_the_processor_s_losses():
    workload = {"network": "lenet", "data": "digits", "image": 28, "batch": 16, "steps": 5}
    there, here = _trained(**workload, accelerator=CUDA), trained(**workload)
    assert there.losses == pytest.approx(here.losses, rel=1e-2)
    assert _phases(there)["forward", 1]["peak_allocated_bytes"] > 0


@pytest.mark.gpu
def test_a_real_gpu_s_limit_is_kept():
    gpu = Accelerator(64 << 20)
    try:
        with pytest.raises(torch.cuda.OutOfMemoryError) as raised:
            gpu.to_accelerator(torch.ones(128 << 20, dtype=torch.uint8))
        assert is_accelerator_memory_error(raised.value)
        assert gpu.figures().ooms >= 1
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def _out_of_memory(*_: object) -> None:
    assert FakeRuntime.current is not None
    FakeRuntime.current.allocate(2 << 20)


def _lenet_parameters() -> list[torch.nn.Parameter]:
    from edgebench.layers.known_networks import LeNet

    return list(LeNet(10).parameters())


class _Events(Told):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.lines: list[dict[str, Any]] = []

    def _write(self, lines: str) -> None:
        self.lines += [json.loads(line) for line in lines.splitlines()]


def _trained(**workload: Any) -> _Events:
    told = _Events()
    with told.reported_accelerator():
        run_training(settings(**workload), told)
    told.flush()
    return told


def _started() -> _Events:
    told = _Events()
    start_accelerator({"accelerator": CUDA}, told)
    return told


def _lines(told: _Events) -> list[dict[str, Any]]:
    return [line for line in told.lines if line["event"] == "accelerator"]


def _phases(told: _Events) -> dict[tuple[str, int | None], dict[str, Any]]:
    found = [one for line in _lines(told) for one in line.get("phases", ())]
    return {(one["phase"], one["round"]): one for one in found}
