"""Under every schedule and loader a network computes what it always computes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from layers_making import (
    SHAPE,
    SMALL,
    Attention,
    Branches,
    Convolutions,
    SpanLog,
    layered,
    plain,
)
from torch import nn

from edgebench.errors import WorkloadError
from edgebench.layers.network import LayeredNetwork
from edgebench.layers.pipeline import SCHEDULES
from edgebench.layers.schedules import AdmissionGate
from edgebench.layers.tensor_files import LOADERS, Tensors

pytestmark = pytest.mark.torch

ALL = pytest.mark.parametrize("schedule", SCHEDULES)


def an_input() -> torch.Tensor:
    return torch.rand(SHAPE, generator=torch.Generator().manual_seed(3))


def pair(folder: Path) -> list[LayeredNetwork]:
    return [layered(plain(kind), folder / kind.__name__) for kind in (Branches, Attention)]


def run(
    schedule: str, networks: list[LayeredNetwork], log: SpanLog, rounds: int = 1, **options: int
):
    runner = SCHEDULES[schedule](networks, log, **options)
    for number in range(rounds):
        outputs = runner.run([an_input()] * len(networks), number)
    return outputs


def wait_before(network: LayeredNetwork, module: str, event: threading.Event) -> None:
    def hook(module: nn.Module, args: object) -> None:
        assert event.wait(200), "what should happen meanwhile did not"

    network.model.get_submodule(module).register_forward_pre_hook(hook)


def use_loader(network: LayeredNetwork, loader: Callable[[Path], Tensors]) -> None:
    network._loader = loader


@pytest.mark.parametrize("loader", LOADERS)
@ALL
def test_a_pipelines_outputs_are_those_of_plain_networks(
    schedule: str, loader: str, tmp_path: Path
) -> None:
    models = [plain(kind, seed) for seed, kind in enumerate(SMALL)]
    with torch.inference_mode():
        expected = [model(an_input()) for model in models]
    networks = [layered(m, tmp_path / str(n), loader) for n, m in enumerate(models)]
    outputs = run(schedule, networks, SpanLog(), rounds=2, warm=1, workers=3)
    assert all(torch.equal(a, b) for a, b in zip(outputs, expected, strict=True))
    for network in networks:
        assert all(tensor.is_meta for tensor in network.model.state_dict().values())


@ALL
def test_every_layer_with_weights_is_loaded_and_every_layer_executed(
    schedule: str, tmp_path: Path
) -> None:
    """Each call once as a ``first``; containers' own parameters are loaded, never executed."""
    log = SpanLog()
    network = layered(plain(Branches), tmp_path)
    run(schedule, [network], log)
    executed = [layer for phase, _, layer in log.phases() if phase == "first" and layer is not None]
    loaded = {layer for phase, _, layer in log.phases() if phase == "load"}
    assert executed == [1, 2, 3, 4, 5, 6, 7]
    assert loaded == ({0, 1, 2, 3, 5, 6, 7} if schedule in ("bulk", "stream") else set(range(8)))


def test_linear_holds_one_layer_at_a_time(tmp_path: Path) -> None:
    """The next layer is loaded only when the one before it is gone; a part called twice, twice."""
    log = SpanLog()
    run("linear", [layered(plain(Convolutions), tmp_path)], log)
    steps = [(phase, layer) for phase, _, layer in log.phases()]
    assert steps == [(phase, layer) for layer in range(3) for phase in ("load", "first")]


def test_linear_reads_a_part_called_twice_twice(tmp_path: Path) -> None:
    network = layered(plain(Branches), tmp_path)
    read: list[Path] = []
    use_loader(network, lambda path: read.append(path) or LOADERS["copy"](path))
    run("linear", [network], SpanLog())
    assert read.count(network._files["twice"]) == 2
    read.clear()
    run("bulk", [network], SpanLog())
    assert read.count(network._files["twice"]) == 1


def test_bulk_loads_all_then_executes_all_then_again(tmp_path: Path) -> None:
    log = SpanLog()
    run("bulk", [layered(plain(Convolutions), tmp_path)], log, warm=2)
    phases = [phase for phase, _, layer in log.phases()]
    whole = [phase for phase, _, layer in log.phases() if layer is None]
    assert phases == ["load"] * 3 + ["first"] * 4 + ["execute"] * 8
    assert whole == ["first", "execute", "execute"]


def test_partial_loads_ahead_while_a_layer_executes(tmp_path: Path) -> None:
    log = SpanLog()
    networks = [layered(plain(kind), tmp_path / kind.__name__) for kind in (Attention, Branches)]
    ahead = threading.Event()
    use_loader(networks[1], lambda path: ahead.set() or LOADERS["copy"](path))
    wait_before(networks[0], "head", ahead)
    run("partial", networks, log, workers=2)
    last = networks[0].calls[-1].order
    assert log.at("start", "load", "Branches", 0) < log.at("end", "first", "Attention", last)


def test_partial_with_one_worker_loads_what_it_needs(tmp_path: Path) -> None:
    log = SpanLog()
    run("partial", [layered(plain(Convolutions), tmp_path)], log, workers=1)
    assert [phase for phase, _, _ in log.phases()] == ["load", "first"] * 3


def test_deepeye_loads_connected_layers_while_convolutions_run(tmp_path: Path) -> None:
    """The first convolution waits here until the second lane has loaded a layer: it does."""
    log = SpanLog()
    network = layered(plain(Branches), tmp_path)
    connected = threading.Event()

    def loader(path: Path) -> Tensors:
        if path == network._files["head.0"]:
            connected.set()
        return LOADERS["copy"](path)

    use_loader(network, loader)
    wait_before(network, "stem", connected)
    run("deepeye", [network], log)
    assert log.at("start", "load", "Branches", 5) < log.at("end", "first", "Branches", 1)


def test_deepeye_starts_the_next_network_while_connected_layers_run(tmp_path: Path) -> None:
    """The first network's last layer waits until the second network executes: it does."""
    log = SpanLog()
    networks = pair(tmp_path)
    started = threading.Event()
    patches = networks[1].model.get_submodule("patches")
    patches.register_forward_hook(lambda module, args, output: started.set())
    wait_before(networks[0], "head.2", started)
    run("deepeye", networks, log)
    assert log.at("start", "first", "Attention", 0) < log.at("end", "first", "Branches", 7)


def test_deepeyes_second_lane_does_one_thing_at_a_time(tmp_path: Path) -> None:
    log = SpanLog()
    networks = [layered(plain(Branches, n), tmp_path / str(n)) for n in range(3)]
    for network in networks:
        use_loader(network, lambda path: time.sleep(0.001) or LOADERS["copy"](path))
    run("deepeye", networks, log, rounds=2)
    inside = 0
    for boundary, phase, _, layer in log.boundaries:
        if layer is not None and layer >= 5 and phase in ("load", "first"):
            inside += 1 if boundary == "start" else -1
            assert inside <= 1


def test_deepeye_frugal_holds_one_networks_connected_layers(tmp_path: Path) -> None:
    """The next network's are loaded when the last of these has run; its convolutions run before."""
    log = SpanLog()
    networks = pair(tmp_path)
    convolved = threading.Event()
    patches = networks[1].model.get_submodule("patches")
    patches.register_forward_hook(lambda module, args, output: convolved.set())
    wait_before(networks[0], "head.2", convolved)
    run("deepeye-frugal", networks, log)
    assert log.at("start", "load", "Attention", 1) > log.at("end", "first", "Branches", 7)


def test_networks_that_fit_together_run_at_the_same_time(tmp_path: Path) -> None:
    """Each waits until the other executes: with enough that is free, both do."""
    networks = pair(tmp_path)
    both = threading.Barrier(2, timeout=200)

    def meet(module: nn.Module, args: object) -> None:
        both.wait()

    for network, module in zip(networks, ("stem", "patches"), strict=True):
        network.model.get_submodule(module).register_forward_pre_hook(meet)
    needed = sum(network.weight_bytes for network in networks)
    run("admission", networks, SpanLog(), free_bytes=needed)
    assert not both.broken


def test_a_network_that_does_not_fit_waits(tmp_path: Path) -> None:
    log = SpanLog()
    networks = pair(tmp_path)
    needed = sum(network.weight_bytes for network in networks)
    run("admission", networks, log, workers=3, free_bytes=needed - 1)
    last = networks[0].calls[-1].order
    assert log.at("start", "load", "Attention", 0) > log.at("end", "first", "Branches", last)


def test_a_smaller_network_passes_one_that_does_not_fit() -> None:
    gate = AdmissionGate([50, 60, 20, 200], 100)
    assert [gate.start()[0] for _ in range(3)] == [0, 2, None]
    assert [gate.end(0), gate.start()[0], gate.start()[0]] == [1, 1, None]
    assert [gate.end(2), gate.start()[0], gate.end(1), gate.start()[0]] == [2, None, 3, 3]


@pytest.mark.parametrize("part", ["stem", "twice", "head.2"])
@ALL
def test_a_load_that_fails_ends_the_round_with_its_error(
    schedule: str, part: str, tmp_path: Path
) -> None:
    networks = [layered(plain(Branches, n), tmp_path / str(n)) for n in range(3)]

    def loader(path: Path) -> Tensors:
        if path == networks[1]._files[part]:
            raise WorkloadError("the disk is gone")
        return LOADERS["copy"](path)

    use_loader(networks[1], loader)
    with pytest.raises(WorkloadError, match="the disk is gone"):
        run(schedule, networks, SpanLog(), workers=3)


@ALL
def test_a_layer_that_fails_ends_the_round_with_its_error(schedule: str, tmp_path: Path) -> None:
    networks = [layered(plain(Branches, n), tmp_path / str(n)) for n in range(2)]

    def fail(module: nn.Module, args: object) -> None:
        raise ArithmeticError("no luck")

    networks[0].model.get_submodule("head.1").register_forward_pre_hook(fail)
    with pytest.raises(ArithmeticError, match="no luck"):
        run(schedule, networks, SpanLog())


class Fickle(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.calls = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        y: torch.Tensor = self.a(x) if self.calls < 3 else self.b(x)
        return y


@ALL
def test_a_network_that_changes_its_path_is_refused(schedule: str, tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="calls"):
        run(schedule, [layered(Fickle(), tmp_path)], SpanLog())


def test_weights_that_lack_a_part_are_refused(tmp_path: Path) -> None:
    """Before anything runs: the message names the part."""
    network = layered(plain(Convolutions), tmp_path)
    with pytest.raises(WorkloadError, match=r"layers\.2"):
        LayeredNetwork(
            "n",
            network.model,
            network.cut,
            {"layers.0": network._files["layers.0"]},
            LOADERS["copy"],
        )


def test_what_ends_a_round_is_in_its_time(tmp_path: Path) -> None:
    log = SpanLog()
    schedule = SCHEDULES["bulk"]([layered(plain(Convolutions), tmp_path)], log)
    schedule.after_round = lambda: log.boundaries.append(("after", "", None, None))
    schedule.run([torch.ones(SHAPE)], 0)
    assert [one[:2] for one in log.boundaries[-2:]] == [("after", ""), ("end", "round")]
    assert [one[0] for one in log.boundaries].count("after") == 1
