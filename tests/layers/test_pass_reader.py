"""What is not kept of weights is read ahead, and dropped behind: also within a large layer."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from kernel_view import becomes, cached_bytes

from edgebench.layers.disk import evict
from edgebench.layers.pages import PageRange, PageTable, pages_of
from edgebench.layers.stream import PIECE_BYTES, WINDOW_BYTES, PassReader
from edgebench.layers.tensor_files import map_read_only, write_tensors

pytestmark = pytest.mark.torch

MIB = 1 << 20
#: Pages that a processor has set aside to sort them later are not dropped.
FEW = MIB // 2


@pytest.fixture
def weight(tmp_path: Path) -> torch.Tensor:
    """16 MiB of weights, mapped from their file and not in memory."""
    path = tmp_path / "w"
    write_tensors(path, {"weight": torch.rand(2048, 2048)})
    # So nothing that is read ahead as it is mapped is on its way when it is evicted.
    path.read_bytes()
    made = map_read_only(path)["weight"].reshape(-1)
    evict(path)
    return made


def mapped_bytes(pages: PageRange) -> int:
    """What of it is in the page table."""
    with PageTable() as table:
        return sum(table.mapped_bytes(pages, PIECE_BYTES))


def test_no_more_is_read_ahead_than_a_window(weight: torch.Tensor):
    """A pass that uses nothing has its first pages read, and no others."""
    (pages,) = pages_of([weight])
    with PassReader({0: [pages]}, set()):
        assert becomes(lambda: cached_bytes(pages) >= WINDOW_BYTES)
        assert cached_bytes(pages) < WINDOW_BYTES + PIECE_BYTES + FEW
        # The beginning of the file was read when it was mapped.
        assert mapped_bytes(pages) < FEW


def test_what_a_layer_has_used_goes_while_it_runs(weight: torch.Tensor):
    """A layer of eight windows never has all of its weights in memory; nothing is read twice."""
    (pages,) = pages_of([weight])
    begin, _ = pages.split(6 * MIB)
    used_again = set[int]()
    with PassReader({0: [pages]}, used_again) as reader:
        reader.before(0)
        weight[: 8 * MIB // 4].sum()
        assert becomes(lambda: cached_bytes(begin) < FEW)
        assert not used_again
        weight[8 * MIB // 4 :].sum()
        reader.after(0)
    assert mapped_bytes(pages) < FEW
    assert not used_again


def test_a_layer_that_uses_its_weights_again_is_left_to_the_kernel(weight: torch.Tensor):
    """It is noted once it comes back to what was dropped; after the layer all of it goes."""
    (pages,) = pages_of([weight])
    begin, _ = pages.split(2 * MIB)
    used_again = set[int]()
    with PassReader({0: [pages]}, used_again) as reader:
        reader.before(0)
        weight[: 4 * MIB // 4].sum()
        assert becomes(lambda: mapped_bytes(begin) < FEW)
        weight[: 2 * MIB // 4].sum()
        assert becomes(lambda: used_again == {0})
        weight.sum()
        assert mapped_bytes(pages) == pages.length
        reader.after(0)
    assert mapped_bytes(pages) < FEW


def test_the_next_layer_is_read_while_this_one_runs(weight: torch.Tensor):
    """Each call's own pages; those of a layer that has run go at once."""
    (pages,) = pages_of([weight])
    one, rest = pages.split(MIB)
    two, _ = rest.split(MIB)
    with PassReader({0: [one], 1: [two]}, set()) as reader:
        reader.before(0)
        weight[: MIB // 4].sum()
        assert becomes(lambda: cached_bytes(two) == two.length)
        reader.after(0)
        assert becomes(lambda: cached_bytes(one) < FEW)
        assert cached_bytes(two) == two.length


def test_without_a_page_table_the_kernel_reads_by_itself(
    weight: torch.Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A kernel that has no such file: what is read in each pass still goes after its layer."""
    monkeypatch.setattr("edgebench.layers.pages._PAGE_TABLE", tmp_path / "none")
    (pages,) = pages_of([weight])
    used_again = set[int]()
    with PassReader({0: [pages]}, used_again) as reader:
        reader.before(0)
        weight.sum()
        reader.after(0)
    assert used_again == {0}
    assert cached_bytes(pages) < FEW
