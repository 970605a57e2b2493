"""Advice about mapped weights reaches the kernel, and changes no output."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from kernel_view import becomes, cached_bytes, mapping_fields, resident_bytes
from layers_making import SHAPE, SMALL, SpanLog, Stack, layered, plain
from torch import nn

from edgebench.layers.disk import evict
from edgebench.layers.names import PAGE_ADVICE
from edgebench.layers.network import LayeredNetwork
from edgebench.layers.pages import PageRange, pages_of
from edgebench.layers.pipeline import SCHEDULES
from edgebench.layers.schedules import AdvisedWeights

pytestmark = pytest.mark.torch

#: What was read to map a file, and pages that a processor has set aside to sort them later.
FEW = 512 << 10


@pytest.fixture
def network(tmp_path: Path) -> LayeredNetwork:
    made = layered(plain(Stack), tmp_path, "mmap")
    files = list(tmp_path.iterdir())
    # So nothing that is read ahead as they are mapped is on its way when they are evicted.
    assert all(file.read_bytes() for file in files)
    for call in made.first_calls():
        made.load(call)
    for file in files:
        evict(file)
    return made


def pages(network: LayeredNetwork, order: int) -> PageRange:
    return pages_of(network.calls[order].part.tensors().values())[0]


def use(network: LayeredNetwork, order: int) -> None:
    assert all(t.sum() is not None for t in network.calls[order].part.tensors().values())


def referenced_bytes(network: LayeredNetwork) -> int:
    return int(mapping_fields(pages(network, 0))["Referenced"].split()[0]) << 10


def test_sequential_is_told_once(network: LayeredNetwork):
    assert "sr" not in mapping_fields(pages(network, 0))["VmFlags"].split()
    AdvisedWeights("sequential", network)
    for order in (0, 7):
        assert "sr" in mapping_fields(pages(network, order))["VmFlags"].split()


def test_the_next_layer_is_read_before_this_one_runs(network: LayeredNetwork):
    advised = AdvisedWeights("willneed", network)
    assert cached_bytes(pages(network, 1)) < FEW
    advised.before(network.calls[0])
    assert becomes(lambda: cached_bytes(pages(network, 1)) == pages(network, 1).length)
    assert resident_bytes(pages(network, 1)) < FEW
    # The last layer has none after it.
    advised.before(network.calls[7])


def test_what_was_used_is_the_first_to_go(network: LayeredNetwork):
    """The kernel has forgotten that it was touched; it is in memory still."""
    advised = AdvisedWeights("cold", network)
    use(network, 0)
    assert referenced_bytes(network) > 2 * FEW
    advised.after(network.calls[0])
    assert referenced_bytes(network) < FEW
    assert cached_bytes(pages(network, 0)) == pages(network, 0).length


def test_what_was_used_is_dropped(network: LayeredNetwork):
    """And nothing else is."""
    advised = AdvisedWeights("pageout", network)
    use(network, 0)
    use(network, 1)
    advised.after(network.calls[0])
    assert cached_bytes(pages(network, 0)) < FEW
    assert cached_bytes(pages(network, 1)) == pages(network, 1).length


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("advice", PAGE_ADVICE)
def test_outputs_stay_the_same(kind: type[nn.Module], advice: str, tmp_path: Path):
    model = plain(kind)
    made = SCHEDULES["bulk"]([layered(model, tmp_path, "mmap")], SpanLog(), warm=2)
    made.page_advice = advice  # type: ignore[attr-defined]
    (output,) = made.run([torch.ones(SHAPE)], 0)
    assert torch.equal(output, model(torch.ones(SHAPE)))
