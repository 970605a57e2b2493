"""How the worker keeps memory: collections of garbage outside of rounds, the heap's free pages."""

from __future__ import annotations

import ctypes
import gc
import platform
import weakref
from typing import Any

import psutil
import pytest
from training_making import settings, worker

from edgebench.spans import collections_s, finished_spans
from edgebench.workloads.recorder import collected_rounds, heap_trimmer

#: The real worker; each forward pass of its network also makes so many cycles, which it keeps until
#: the next one: enough for Python to begin a full collection by itself.
CYCLES = """
import sys
from edgebench.workloads.training.pytorch import TorchNetwork
from edgebench.workloads.worker import main

plain, kept = TorchNetwork.forward, []

def forward(self, batch, share):
    kept.clear()
    for _ in range(300_000):
        one = []
        one.append(one)
        kept.append(one)
    return plain(self, batch, share)

TorchNetwork.forward = forward
sys.exit(main(sys.argv[1:]))
"""


class Node:
    def __init__(self) -> None:
        self.itself = self


def events_of(collector: str) -> list[dict[str, Any]]:
    made = settings(network="mlp", steps=4, threads=None, gc=collector)
    done, events = worker("training", made, ("-c", CYCLES))
    assert done.returncode == 0, done.stderr
    return events


def within_rounds(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rounds = [span for span in finished_spans(events) if span.phase == "round"]
    assert len(rounds) == 4
    return [
        event
        for event in events
        if event["event"] == "collection"
        and any(span.start_ns <= event["start_ns"] < span.end_ns for span in rounds)
    ]


@pytest.mark.process
@pytest.mark.promise(
    "No garbage collection runs in a round unless requested; outputs are bit-identical; "
    "memory does not grow through reference cycles."
)
@pytest.mark.torch
def test_frozen_rounds_have_no_collection_and_the_same_outputs():
    """By default a full one falls into a phase and is an event with its time; frozen, none does.

    The losses are the same bit for bit, and what the rounds leave is collected between them.
    """
    default, frozen = events_of("default"), events_of("frozen")
    fallen = within_rounds(default)
    assert any(event["generation"] == 2 for event in fallen)
    assert all(event["t_ns"] >= event["start_ns"] for event in fallen)
    assert collections_s(default) == pytest.approx(
        sum(event["t_ns"] - event["start_ns"] for event in fallen) / 1e9, rel=0.01
    )
    assert within_rounds(frozen) == []
    assert collections_s(frozen) == 0
    assert max(e["collected"] for e in frozen if e["event"] == "collection") >= 300_000
    losses = [
        [e["data"]["loss"] for e in events if e["event"] == "note" and "loss" in e["data"]]
        for events in (default, frozen)
    ]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 4


@pytest.mark.promise(
    "No garbage collection runs in a round unless requested; outputs are bit-identical; "
    "memory does not grow through reference cycles."
)
def test_cycles_do_not_pile_up_while_automatic_collection_is_off():
    alive: weakref.WeakSet[Node] = weakref.WeakSet()
    counts, before = [], []
    with collected_rounds({"gc": "frozen"}) as before_round:
        for _ in range(20):
            before_round()
            counts.append(len(alive))
            before = [Node() for _ in range(10)]
            alive.update(before)
            alive.update([Node() for _ in range(10)])
    # Ten of the last round live, and ten that were frozen before the second.
    assert max(counts) <= 20


def test_the_collector_is_left_as_it_was():
    assert gc.isenabled()
    with collected_rounds({"gc": "frozen"}) as before_round:
        before_round()
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    for usual in ({}, {"gc": "default"}):
        with collected_rounds(usual) as before_round:
            before_round()
            assert gc.isenabled()
            assert gc.get_freeze_count() == 0


MIB = 1 << 20
#: Below what glibc maps by itself, so that it comes from the heap.
BLOCK, BLOCKS = 16 << 10, 4096


def resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has malloc_trim")
def test_freed_blocks_are_given_back_when_it_is_asked_for():
    """64 MiB of freed blocks below one in use: kept without the setting, given back with it."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    blocks = [libc.malloc(BLOCK) for _ in range(BLOCKS)]
    for block in blocks:
        ctypes.memset(block, 1, BLOCK)
    last = libc.malloc(BLOCK)
    try:
        for block in blocks:
            libc.free(block)
        kept = resident_bytes()
        heap_trimmer({})()
        heap_trimmer({"malloc_trim": False})()
        assert resident_bytes() > kept - 16 * MIB
        heap_trimmer({"malloc_trim": True})()
        assert resident_bytes() < kept - 32 * MIB
    finally:
        libc.free(last)
