"""What swap takes of RAM lies within the limit, which is lowered meanwhile, or kills."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgebench.answers.trials import trial_fields
from edgebench.cgroups.swap import Compressed, SwapRam, SwapState, swap_ram
from edgebench.errors import CgroupError, MachineError
from edgebench.records import Doubt, LimitSetting
from edgebench.run.trial.command import measure_command
from edgebench.run.trial.controllers import FAST_DISK, SwapCharge

MIB = 1 << 20
LIMIT = 228 * MIB


@dataclass
class Group:
    """A made-up trial that wants so much memory, of which each page compresses to a share.

    What lies beyond the limit is swapped at once. ``copies`` are back, but still in its swap.
    """

    wants: int
    share: float
    files: int = 0
    copies: int = 0
    limit: int = LIMIT
    killed: bool = False

    @property
    def swapped(self) -> int:
        return max(0, self.wants - self.limit)

    def used(self) -> int:
        return min(self.wants, self.limit) + self.files

    def read(self) -> Compressed:
        held = self.swapped + self.copies
        return Compressed(held, round(self.share * held))

    def move(self, size: int) -> int:
        """As version 1 does."""
        self.limit = size
        return size

    def kill(self) -> None:
        self.killed = True


class Scripted:
    """Held, taken and used at each reading, MiB, whatever its limit; some moves are refused."""

    def __init__(
        self, readings: Iterable[tuple[int, int, int]], refuses: Iterable[bool] = ()
    ) -> None:
        self._readings, self._refuses = iter(readings), iter(refuses)
        self.files, self.killed, self.moved = 0, False, list[float]()

    def read(self) -> Compressed:
        held, taken, used = (size * MIB for size in next(self._readings))
        self.swapped, self._used = held, used
        return Compressed(held, taken)

    def used(self) -> int:
        return self._used

    def move(self, size: int) -> int:
        if next(self._refuses, False):
            raise CgroupError("busy") from OSError(errno.EBUSY, "busy")
        self.moved.append(size / MIB)
        return size

    def kill(self) -> None:
        self.killed = True


def charged(
    group: Group | Scripted,
    not_charged: str | None = None,
    steps: int = 200,
    doubt: str = "",
    limit: int = LIMIT,
) -> SwapCharge:
    charge = SwapCharge(
        SwapRam(group.read, doubt),
        None if not_charged else limit,
        move=group.move,
        used=group.used,
        files=lambda: group.files,
        swapped=lambda: group.swapped,
        kill=group.kill,
        not_charged=not_charged,
    )
    for _ in range(steps):
        charge.step()
    return charge


def test_what_fits_on_the_board_finishes_below_a_lowered_limit() -> None:
    """300 MiB that compress to half: what is left and what zram takes come to the limit."""
    group = Group(300 * MIB, 0.5)
    charge = charged(group)
    assert not group.killed
    assert abs(group.used() + group.read().taken_bytes - LIMIT) < 4 * MIB
    made = charge.report()
    assert made is not None
    assert made.limit_least_bytes == group.limit
    # It is never lowered by more than what was taken.
    assert 0 <= made.peak_bytes - (LIMIT - group.limit) <= 2 * MIB
    # What is freed is the trial's again.
    group.wants = 100 * MIB
    charge.step()
    assert group.limit == LIMIT


@pytest.mark.parametrize(
    ("wants", "share", "killed"),
    [
        *((400, 1.0, True), (250, 1.0, True), (480, 0.6, True), (1200, 0.2, True)),
        *((400, 0.5, False), (235, 1.0, False), (900, 0.2, False), (200, 1.0, False)),
    ],
)
def test_what_does_not_fit_on_the_board_is_killed(wants: int, share: float, killed: bool) -> None:
    group = Group(wants * MIB, share)
    report = charged(group).report()
    assert report is not None
    assert group.killed == report.ran_out == killed


def test_the_limit_is_lowered_by_what_swap_takes_and_raised_again() -> None:
    """Of 200 MiB 60 lie in zram as 15; then 90 as 24 and 20 as 5."""
    group = Scripted([(60, 15, 150), (90, 24, 150), (20, 5, 100)])
    report = charged(group, steps=3, limit=200 * MIB).report()
    assert group.moved == [185, 176, 195]
    assert report is not None
    assert (report.peak_bytes, report.limit_least_bytes) == (24 * MIB, 176 * MIB)


@pytest.mark.parametrize(
    ("lost", "killed"), [("111", False), ("1111", True), ("1110111", False), ("11101111", True)]
)
def test_only_readings_in_a_row_show_that_nothing_is_left(lost: str, killed: bool) -> None:
    """Four of them, of data that don't compress; one that fits begins anew."""
    group = Scripted((300, 300, 150) if one == "1" else (10, 5, 100) for one in lost)
    charged(group, steps=len(lost), limit=200 * MIB)
    assert group.killed == killed


@pytest.mark.parametrize(
    ("refused", "killed"), [([49], False), ([50], True), ([49, 49], False), ([49, 50], True)]
)
def test_only_refusals_in_a_row_show_that_nothing_can_be_reclaimed(
    refused: list[int], killed: bool
) -> None:
    """Fifty, while it is above the limit; a limit that was moved begins anew."""
    refuses = [answer for count in refused for answer in (*[True] * count, False)][:-1]
    # 200 MiB used and 10 in swap: each time the limit is to be moved.
    group = Scripted([(10, 10, 200)] * 100, refuses)
    charged(group, steps=len(refuses), limit=200 * MIB)
    assert group.killed == killed


def test_copies_of_pages_that_are_back_count_nothing() -> None:
    """They are dropped where room is needed; what other programs' are can't be told from them."""
    plain, copied = Group(400 * MIB, 0.5), Group(400 * MIB, 0.5, copies=150 * MIB)
    charged(plain)
    charge = charged(copied)
    assert not copied.killed
    assert copied.limit == plain.limit
    assert charge.report().peak_bytes <= (400 * MIB - copied.limit) // 2 + 2 * MIB
    others = Group(400 * MIB, 0.5, copies=150 * MIB)
    charged(others, doubt="of all programs")
    assert others.killed


def test_files_that_can_be_dropped_kill_nothing() -> None:
    group = Group(200 * MIB, 1.0, files=60 * MIB)
    group.limit = 190 * MIB
    charged(group, steps=3)
    assert not group.killed


def test_a_walk_leaves_its_limits_alone_and_says_so() -> None:
    group = Group(300 * MIB, 1.0)
    charge = charged(group, FAST_DISK)
    assert group.limit == LIMIT
    assert not charge.moves
    assert charge.doubts() == [Doubt("uncounted_swap_ram", {"taken_bytes": 72.0 * MIB}, ["zram"])]


def machine(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_which_swap_takes_ram(tmp_path: Path) -> None:
    """Zram of its own, or the machine's: then of that what was added."""
    root = tmp_path
    assert swap_ram(SwapState("none"), root) is None
    assert swap_ram(SwapState("file", Path("/s"), MIB), root) is None
    machine(root, {"sys/block/zram3/mm_stat": " 4096000 1000 2048000 0 9 9 9 9 9\n"})
    own = swap_ram(SwapState("zram", Path("/dev/zram3"), MIB), root)
    assert own is not None
    assert own.read() == Compressed(4096000, 2048000)
    head = "Filename Type Size Used Priority\n"
    machine(root, {"proc/swaps": f"{head}/dev/zram3 partition 1000 10 100\n"})
    system = swap_ram(SwapState("system"), root)
    assert system is not None
    machine(root, {"sys/block/zram3/mm_stat": "5096000 1000 2548000 0 9\n"})
    assert system.read() == Compressed(1000000, 500000)
    assert "of all programs" in system.doubt
    (root / "sys/block/zram3/mm_stat").unlink()
    assert system.read() is None


#: MiB of float-like data, of which so many of a hundred bytes are random.
FILLS = """
import os, sys
size, share = int(sys.argv[1]) << 20, int(sys.argv[2])
page = os.urandom(4096 * share // 100)
held = [os.urandom(len(page)) + bytes(4096 - len(page)) for _ in range(size // 4096)]
rounds = 0
while rounds < 2 or share == 100:
    sum(one[0] for one in held)
    rounds += 1
"""


@pytest.mark.root
@pytest.mark.swap
@pytest.mark.own_cgroup
@pytest.mark.v2_core
@pytest.mark.parametrize(("share", "outcome"), [(100, "oom-killed"), (25, "ok")])
def test_zram_takes_of_the_limit(tmp_path: Path, share: int, outcome: str) -> None:
    """Case 24 in small: 64 MiB in 48 MiB and zram finish only if they compress."""
    (tmp_path / "fills.py").write_text(FILLS)
    command = ["python3", "-I", "-S", str(tmp_path / "fills.py"), "64", str(share)]
    limits = LimitSetting("48M", 48 * MIB, "zram", 256 * MIB)
    try:
        made = measure_command(command, limits, timeout_s=120)
    except MachineError as error:
        pytest.skip(f"no zram here: {error}")
    if made.killed_with_swap_free:
        # The kernel's own kill, which it does without zram too: docs/explanation/observer-effect.md
        pytest.skip(str(made.reason))
    assert made.outcome == outcome, made.reason
    assert made.swap_ram is not None
    assert made.swap_ram.ran_out == (made.outcome != "ok" and not made.oom_kills)
    assert made.broken_limits == []
    assert made.swap_ram.limit_least_bytes is not None
    assert made.swap_ram.limit_least_bytes < 47 * MIB
    assert made.swap_ram.peak_bytes > 2 * MIB
    assert made.limit_bytes == 48 * MIB
    assert "zram takes" in dict(trial_fields(made))["swap"]
