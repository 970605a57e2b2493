"""A trial whose swap is in another area than its own is marked; growth of others is recorded."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_records import MIB

from edgebench.cgroups.interface import Cgroup, Counters, Limits
from edgebench.cgroups.join import join_command
from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.parent import find_parent
from edgebench.cgroups.swap import SwapControl
from edgebench.records import Doubt
from edgebench.run.trial.controllers import group_swap
from edgebench.run.trial.readers import Finished
from edgebench.run.trial.trial_readers import OTHER_SWAP, SwapReader, SwapReadings
from edgebench.swap_areas import SwapArea, read_swap_areas

OWN, OTHER = Path("/swap/own"), Path("/swap/other")
FINISHED = Finished(Counters(), None)
#: Touch 96 MiB, then wait for the end of the input.
_FILL = """
import sys
held = bytearray(96 << 20)
for at in range(0, len(held), 4096):
    held[at] = 1
print("full", flush=True)
sys.stdin.read()
"""


def seen_by(
    readings: list[tuple[int, int, int | None, int | None]], before: tuple[int, int] = (0, 0)
) -> SwapReadings:
    """Read MiB in the trial's own area, in the other, in the cgroup (before and after)."""
    now: tuple[int, int, int | None, int | None] = (*before, None, None)
    group: Iterator[int | None] = iter(())

    def areas() -> dict[Path, SwapArea]:
        return {OWN: SwapArea(now[0] * MIB, 1), OTHER: SwapArea(now[1] * MIB, 0)}

    reader = SwapReader(OWN, areas, lambda: next(group))
    reader.start()
    for reading in readings:
        now = reading
        group = iter([None if size is None else size * MIB for size in reading[2:]])
        reader.poll()
    return reader.stop(FINISHED)


@pytest.mark.parametrize(
    ("before", "readings", "other", "marked"),
    [
        # All in its own area, however much.
        ((0, 0), [(80, 0, 80, 80), (90, 0, 90, 90)], 0, None),
        # The most of all readings.
        ((0, 0), [(10, 30, 40, 40), (10, 70, 80, 80), (10, 20, 30, 30)], 70, 70),
        # The other area grew, and the trial's swap is all in its own.
        ((0, 25), [(40, 100, 40, 40)], 75, None),
        # It swaps out, or gives swap back, while its area is read; so does a MiB of slots kept.
        ((0, 0), [(40, 50, 80, 40), (80, 50, 40, 80), (40, 50, 41, 41)], 50, None),
        # Without accounting, how much of it is the trial's own is not known.
        ((0, 0), [(40, 50, None, None)], 50, None),
    ],
)
def test_swap_in_another_area_is_a_warning(
    before: tuple[int, int], readings: list[Any], other: int, marked: int | None
):
    """Sizes in MiB: its own area, the other one, and twice the cgroup's swap."""
    made = seen_by(readings, before)
    assert made.other_bytes == other * MIB
    doubt = Doubt("other_swap_area", {"swap_bytes": (marked or 0) * MIB}, [str(OTHER)])
    assert made.doubts == ([doubt] if marked else [])


def test_where_areas_cant_be_read_nothing_is_guessed(tmp_path: Path):
    assert read_swap_areas(tmp_path / "none") is None
    reader = SwapReader(OWN, lambda: read_swap_areas(tmp_path / "none"), lambda: 1)
    reader.start()
    reader.poll()
    made = reader.stop(FINISHED)
    assert made.other_bytes is None
    assert made.missing[OTHER_SWAP] == "/proc/swaps can't be read"


def _swapped_by(cgroup: Cgroup, own: Path) -> SwapReadings:
    cgroup.set_limits(Limits(memory_bytes=32 * MIB))
    command = join_command(cgroup, [sys.executable, "-I", "-S", "-c", _FILL], None, None)
    reader = SwapReader(own, read_swap_areas, group_swap(cgroup.hot_files()))
    reader.start()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"full\n"
        reader.poll()
        process.communicate()
    return reader.stop(FINISHED)


@pytest.mark.exclusive
@pytest.mark.swap
@pytest.mark.promise("A trial whose swap went to another area than its own is marked.")
def test_the_area_that_came_last_is_used_first(tmp_path: Path):
    """So a harness uses its own; one whose area was there before finds that it was passed over."""
    (tmp_path / "state").mkdir(mode=0o700)
    with Ownership(tmp_path / "state") as ownership:
        cgroup = find_parent(ownership).create(f"{os.getpid()}-areas")
        with SwapControl(ownership) as one, SwapControl(ownership) as other:
            first = one.use("file", 160 * MIB).device
            last = other.use("file", 160 * MIB).device
            assert first
            assert last
            marked, unmarked = _swapped_by(cgroup, first), _swapped_by(cgroup, last)
        cgroup.remove()
    assert marked.doubts[-1].names == [str(last)]
    assert marked.other_bytes
    assert marked.other_bytes > 40 * MIB
    assert unmarked.doubts == []
