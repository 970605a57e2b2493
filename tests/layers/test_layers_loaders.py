"""Loaders give a file's tensors, take the memory they say, and give it back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from edgebench.errors import WorkloadError
from edgebench.layers.tensor_files import ALIGNMENT, LOADERS, PADDING, write_tensors
from edgebench.scenario.scenario import scenario_of

pytestmark = pytest.mark.torch

MIB = 1 << 20
TENSORS = {
    "weight": torch.rand(7, 3),
    "bias": torch.rand(7),
    "count": torch.tensor(3),
    "mask": torch.tensor([True, False, True]),
    "half": torch.rand(5).half(),
    "none": torch.empty(0, 4),
}


def in_memory(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            return os.preadv(file.fileno(), [bytearray(4096)], 2 * MIB, os.RWF_NOWAIT) > 0
        except BlockingIOError:
            return False
        except OSError as error:
            pytest.skip(f"this file system can't tell: {error.strerror}")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_tensors(tmp_path / "w.safetensors", TENSORS)
    return tmp_path / "w.safetensors"


def anonymous_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


@pytest.mark.parametrize("loader", LOADERS.values(), ids=LOADERS)
def test_what_was_written_is_loaded(loader: Callable[[Path], dict], file: Path) -> None:
    loaded = loader(file)
    assert set(loaded) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert loaded[name].dtype == tensor.dtype
        assert torch.equal(loaded[name], tensor)
        assert loaded[name].data_ptr() % ALIGNMENT == 0


def test_the_file_is_a_standard_one(file: Path) -> None:
    """The safetensors library reads it; what fills gaps is named so."""
    loaded = load_file(file)
    extra = set(loaded) - set(TENSORS)
    assert all(name.startswith(PADDING) for name in extra)
    assert torch.equal(loaded["weight"], TENSORS["weight"])


def test_copied_weights_take_their_size_once_and_give_it_back(tmp_path: Path) -> None:
    paths = [tmp_path / f"{n}.safetensors" for n in range(24)]
    for path in paths:
        write_tensors(path, {"weight": torch.rand(MIB // 4)})
    before = anonymous_bytes()
    held = [LOADERS["copy"](path) for path in paths]
    loaded = anonymous_bytes()
    held.clear()
    after = anonymous_bytes()
    assert 23 * MIB < loaded - before < 27 * MIB
    assert after - before < 3 * MIB


def test_mapped_weights_are_no_anonymous_memory(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write_tensors(path, {"weight": torch.rand(6 * MIB)})
    before = anonymous_bytes()
    loaded = LOADERS["mmap"](path)
    assert loaded["weight"].sum() > 0
    assert anonymous_bytes() - before < 3 * MIB


def test_a_mapped_file_is_not_changed_by_writing_to_its_tensors(file: Path) -> None:
    before = file.read_bytes()
    LOADERS["mmap"](file)["weight"].fill_(7)
    assert file.read_bytes() == before


@pytest.mark.parametrize("loader", LOADERS.values(), ids=LOADERS)
@pytest.mark.parametrize("keep", [0, 4, 8, 40, -1])
def test_a_file_cut_short_is_damaged(loader: Callable[[Path], dict], keep: int, file: Path) -> None:
    """At whatever length, never a crash: the message names the file and what mends it."""
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(WorkloadError, match="damaged") as caught:
        loader(file)
    assert caught.value.where == str(file)
    assert "delete" in str(caught.value.remedy)


@pytest.mark.parametrize("loader", LOADERS.values(), ids=LOADERS)
@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b'"x"',
        b'{"w":{}}',
        b'{"w":{"dtype":"F32","shape":[9],"data_offsets":[0,4]}}',
        b'{"w":{"dtype":"X9","shape":[1],"data_offsets":[0,4]}}',
        b'{"w":{"dtype":"F32","shape":[-1],"data_offsets":[4,0]}}',
        b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[-400,-396]}}',
    ],
)
def test_a_header_that_makes_no_sense_is_damaged(
    loader: Callable[[Path], dict], header: bytes, file: Path
) -> None:
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(64))
    with pytest.raises(WorkloadError, match="damaged"):
        loader(file)


@pytest.mark.parametrize("loader", LOADERS.values(), ids=LOADERS)
def test_a_missing_file_is_named(loader: Callable[[Path], dict], tmp_path: Path) -> None:
    """The message says which file and why."""
    with pytest.raises(WorkloadError, match="No such file") as caught:
        loader(tmp_path / "gone.safetensors")
    assert "gone.safetensors" in str(caught.value.where)


MAPPED = {"loader": "mmap"}


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        # Fewer bits are made in memory of their own; stream is of mapped weights.
        ({**MAPPED, "precision": "bfloat16"}, 'write loader = "copy"'),
        ({**MAPPED, "precision": "int8", "schedule": "stream"}, 'write loader = "copy"'),
        ({"schedule": "stream", "loader": "copy"}, 'weights; write loader = "mmap"'),
    ],
)
def test_keys_that_the_loader_rules_out_are_refused(keys: dict[str, str], says: str) -> None:
    """Before anything runs, with what to write instead."""
    workload = {"kind": "inference", "network": "squeezenet1_1", **keys}
    with pytest.raises(ValueError, match=says):
        scenario_of({"schema": 1, "name": "made", "workload": workload})


def test_written_weights_can_be_evicted(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write_tensors(path, {"weight": torch.rand(MIB)})
    if in_memory(path):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if in_memory(path):
            pytest.skip("this file system keeps its files in memory")
        pytest.fail("the pages stayed until they were written")
