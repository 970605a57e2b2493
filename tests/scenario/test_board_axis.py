"""Boards as an axis of ``[limits]``: what they set, and what is given besides."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from edgebench.boards.board import find_board
from edgebench.scenario.limits import LimitAxes
from edgebench.scenario.scenario import scenario_of
from edgebench.units import MIB

PI, NANO = "raspberry-pi-4-4g", "jetson-nano-4g"


def limits(**keys: Any) -> list[Any]:
    """The settings of a ``[limits]`` table."""
    return list(LimitAxes.model_validate(keys).settings())


def test_a_board_sets_what_is_not_given():
    """Memory, cores, storage and swap; its unlimited point has the same but for memory."""
    unlimited, limited = limits(board=PI)
    assert (unlimited.label, limited.label) == ("max", "3800M")
    assert limited.memory_bytes == 3800 * MIB
    for one in (unlimited, limited):
        assert one.board == PI
        assert one.cores == min(4, len(os.sched_getaffinity(0)))
        assert one.storage == "read=50MB/s,write=10MB/s,read_iops=1500,write_iops=500"
        assert (one.swap_kind, one.swap_bytes) == ("zram", 2048 * MIB)


def test_what_is_given_stands_instead():
    """Each axis by itself, where it says the same as the default too."""
    (unlimited,) = limits(board=PI, memory="max", swap="none", storage="as-is", cores=1)
    assert (unlimited.swap_kind, unlimited.storage, unlimited.cores) == ("none", "as-is", 1)
    _, limited = limits(board=PI, swap="1G")
    assert (limited.label, limited.swap_kind, limited.swap_bytes) == ("3800M", "file", 1024 * MIB)


def test_boards_are_an_axis():
    """Each with its own memory; without one nothing changes."""
    found = limits(board=[PI, NANO], storage=["as-is", "emmc"])
    assert len(found) == 8
    assert {(one.board, one.label) for one in found} == {
        *((PI, "max"), (PI, "3800M"), (NANO, "max"), (NANO, find_board(NANO).memory_label))
    }
    assert [one.board for one in limits(memory="100M")] == [None, None]


def test_a_file_is_a_board_too(tmp_path: Path):
    """By its path, as an owner writes it."""
    file = tmp_path / "mine.toml"
    file.write_text('schema = 1\ntitle = "Mine"\nram = "1GiB"\ncores = 1\n')
    _, limited = limits(board=str(file))
    assert (limited.label, limited.cores, limited.storage) == ("768M", 1, "as-is")


def test_an_unknown_board_is_refused():
    """With the nearest name."""
    with pytest.raises(ValidationError, match="did you mean 'jetson-nano-4g'"):
        limits(board="jetson-nano")


def test_a_scenario_without_a_board_means_what_it_meant():
    """A default written out is the same sweep; another board is another one."""
    tables = {"schema": 1, "name": "made", "workload": {"kind": "inference", "network": "lenet"}}
    plain, boards = (
        [scenario_of({**tables, "limits": one}).fingerprint() for one in given]
        for given in (({}, {"memory": "max"}), ({"board": PI}, {"board": NANO}))
    )
    assert plain[0] == plain[1]
    assert len({*plain, *boards}) == 3
