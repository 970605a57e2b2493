"""``stream``: what fits is kept, the rest is read once in each pass, and outputs stay equal."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from kernel_view import becomes, cached_bytes, resident_bytes
from layers_making import SHAPE, SpanLog, Stack, layered, plain

from edgebench.layers import stream as kernel_pages
from edgebench.layers.disk import evict
from edgebench.layers.stream import (
    MARGIN_BYTES,
    PIECE_BYTES,
    WINDOW_BYTES,
    MemoryRoom,
    PageRange,
    PageTable,
    PassReader,
    Stream,
    StreamedWeights,
    drop,
    lock,
    pages_of,
)
from edgebench.layers.tensor_files import map_read_only, write_tensors
from edgebench.results.results import load
from tests.own_path import python_path

pytestmark = pytest.mark.torch

PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20
#: Pages that a processor has set aside to sort them later are not dropped.
FEW = MIB // 2


@pytest.fixture
def mapped(tmp_path: Path) -> dict[str, torch.Tensor]:
    size = write_tensors(tmp_path / "w", {"weight": torch.rand(1024, 1024)})
    assert size > 4 * MIB
    return map_read_only(tmp_path / "w")


def test_pages_are_counted_once(mapped: dict[str, torch.Tensor]) -> None:
    whole = mapped["weight"].reshape(-1)
    halves = [whole[: 512 * 1024 + 5], whole[512 * 1024 + 5 :]]
    assert pages_of(halves) == pages_of([whole])
    (pages,) = pages_of([whole])
    assert pages.address % PAGE == pages.length % PAGE == 0
    first, rest = pages.split(10 * PAGE + 7)
    assert (first.length, rest.address) == (10 * PAGE, pages.address + 10 * PAGE)
    assert first.length + rest.length == pages.length


def test_what_is_locked_stays_when_the_rest_is_dropped(mapped: dict[str, torch.Tensor]) -> None:
    (pages,) = pages_of(mapped.values())
    kept, rest = pages.split(MIB)
    assert lock(kept)
    mapped["weight"].sum()
    assert resident_bytes(pages) >= 4 * MIB
    drop(rest)
    assert resident_bytes(pages) == MIB
    drop(kept)
    assert resident_bytes(pages) == MIB


def test_room_is_what_the_limit_leaves() -> None:
    assert MemoryRoom(None, swaps=True, free=lambda: 5).for_weights() is None
    room = MemoryRoom(100 * MIB, swaps=False, free=lambda: 40 * MIB)
    assert room.for_weights() == 40 * MIB - MARGIN_BYTES
    assert MemoryRoom(MIB, swaps=False, free=lambda: 0).for_weights() == 0
    assert MemoryRoom(MIB, swaps=False, free=lambda: None).for_weights() == 0


class OwnMaps:
    """The kernel's smaps without mapped files: other programs touch pages of libraries too."""

    @contextmanager
    def open(self) -> Iterator[Iterator[str]]:
        with Path("/proc/self/smaps").open() as lines:
            yield self._anonymous(lines)

    def _anonymous(self, lines: Iterable[str]) -> Iterator[str]:
        shown = True
        for line in lines:
            first, *rest = line.split()
            if "-" in first and not first.endswith(":"):
                shown = rest[3] == "0"
            if shown:
                yield line


@pytest.fixture
def only_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("edgebench.layers.stream._MAPS", OwnMaps())
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("only_its_own")
def test_with_swap_only_what_a_pass_touches_has_to_stay() -> None:
    idle = torch.ones(16 * MIB, dtype=torch.uint8)
    used = torch.ones(16 * MIB, dtype=torch.uint8)
    room = MemoryRoom(4096 * MIB, swaps=True, free=lambda: 0)
    assert room.for_weights() == 0
    left = []
    # What the first pass touches only once does not count; of the next two the highest.
    for touched in ([used, idle], [used], [used, idle], []):
        with room.watching(list):
            assert all(one.sum() for one in touched)
        left.append(room.for_weights())
    assert left[1] - left[2] == pytest.approx(16 * MIB, abs=4 * MIB)
    assert left[0] < left[1]
    assert left[3] == left[2]


def test_more_is_kept_when_there_is_more_room(tmp_path: Path) -> None:
    """From the first layer on; what is kept is never more than the room."""
    network = layered(plain(Stack), tmp_path, "mmap")
    total = sum(one.length for c in network.first_calls() for one in _pages(network, c))
    weights = StreamedWeights(PAGE)
    for call in network.first_calls():
        weights.add(call)
    assert weights.kept_bytes == PAGE
    weights.keep(None)
    assert weights.kept_bytes == total
    assert not any(one.length for left in weights.read_in_pass.values() for one in left)


def _pages(network: Any, call: Any) -> list[PageRange]:
    network.load(call)
    return pages_of(call.part.tensors().values())


def test_nothing_that_may_be_kept_is_read_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[PageRange] = []
    monkeypatch.setattr("edgebench.layers.stream.drop", dropped.append)
    # Behind the layers, not within them.
    monkeypatch.setattr("edgebench.layers.stream._LOOK_S", 60)
    model = plain(Stack)
    network = layered(model, tmp_path, "mmap")
    half = 4 * sum(tensor.nbytes for tensor in model.layers[0].parameters())
    schedule = Stream([network], SpanLog(), warm=1)
    schedule.room = MemoryRoom(half + MARGIN_BYTES, swaps=False, free=lambda: half + MARGIN_BYTES)
    (output,) = schedule.run([torch.ones(SHAPE)], 0)
    assert torch.equal(output, model(torch.ones(SHAPE)))
    assert schedule.notes()["kept_weights_bytes"] == pytest.approx(half, abs=8 * PAGE)
    assert sum(one.length for one in dropped) / 2 == pytest.approx(half, abs=20 * PAGE)


def test_where_all_is_kept_a_pass_asks_nothing_of_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Counted:
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            return getattr(libc, name)

    libc = kernel_pages._LIBC
    monkeypatch.setattr(kernel_pages, "_LIBC", Counted())
    network = layered(plain(Stack), tmp_path, "mmap")
    counts = []
    for warm in (0, 5):
        asked.clear()
        before = threading.active_count()
        Stream([network], SpanLog(), warm=warm).run([torch.ones(SHAPE)], 0)
        counts.append(len(asked))
        assert threading.active_count() == before
    assert counts[0] == counts[1] >= 2 * 8


@pytest.fixture
def weight(tmp_path: Path) -> torch.Tensor:
    path = tmp_path / "w"
    write_tensors(path, {"weight": torch.rand(2048, 2048)})
    # So nothing that is read ahead as it is mapped is on its way when it is evicted.
    path.read_bytes()
    made = map_read_only(path)["weight"].reshape(-1)
    evict(path)
    return made


def mapped_bytes(pages: PageRange) -> int:
    with PageTable() as table:
        return sum(table.mapped_bytes(pages, PIECE_BYTES))


def test_no_more_is_read_ahead_than_a_window(weight: torch.Tensor):
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
    monkeypatch.setattr("edgebench.layers.stream._PAGE_TABLE", tmp_path / "none")
    (pages,) = pages_of([weight])
    used_again = set[int]()
    with PassReader({0: [pages]}, used_again) as reader:
        reader.before(0)
        weight.sum()
        reader.after(0)
    assert used_again == {0}
    assert cached_bytes(pages) < FEW


SCENARIO = """
schema = 1
name = "streamed"
repeats = 1
timeout = "3m"
[workload]
kind = "inference"
network = "alexnet"
schedule = ["bulk", "stream"]
loader = "mmap"
threads = 1
rounds = 1
warm = 6
[limits]
memory = ["180M"]
swap = "1G"
storage = "read=100MB/s"
"""


@pytest.mark.exclusive
@pytest.mark.root
@pytest.mark.long
@pytest.mark.timeout(600)
def test_below_its_weights_a_network_is_read_in_part_only(tmp_path: Path) -> None:
    """AlexNet's 233 MiB below 180 MiB: ``bulk`` reads all in each pass, ``stream`` a part."""
    (tmp_path / "s.toml").write_text(SCENARIO)
    done = subprocess.run(
        [sys.executable, "-m", "edgebench", "run", "s.toml", "--results", "results", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": python_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (sweep,) = load(Path(tmp_path / json.loads(done.stdout)["folder"])).sweeps
    assert {record.outcome for record in sweep.records} == {"ok"}
    # The sweep has a trial without a limit of each, too, in which both read all weights once.
    limited = {r.settings["schedule"]: r for r in sweep.records if r.limit_bytes is not None}
    assert "kept_weights_bytes" not in limited["bulk"].notes
    assert limited["stream"].notes["kept_weights_bytes"] > 20 * MIB
    # What is kept is read once a round, not once a pass; a quarter less is more than chance.
    read = {schedule: record.io_read_bytes or 0 for schedule, record in limited.items()}
    assert read["stream"] < 0.75 * read["bulk"]
