"""What is watched of a trial's swap while it runs: other areas that it gets, and RAM that it takes.

The kernel fills areas in the order of their priorities, whoever swaps. So a trial can get its swap
from another area, whose size and speed are not those that were asked for.

Pages in zram lie in the same RAM as everything else, but no cgroup is charged for them. On a board
of 228 MiB, 100 MiB in zram leave 128 MiB for the rest. So the limit is lowered by what the swap
takes, and raised again as that shrinks. A thread of the harness does so: the kernel reclaims in
that thread, outside the trial's cgroup.

A page that was read back may keep its copy in zram until that room is needed (seen on Linux 6.18:
59 MiB in zram, 20 MiB of them copies). Older kernels, as boards have, read past the swap cache and
keep none (``SWP_SYNCHRONOUS_IO`` in mm/memory.c). So copies don't count: of a trial's own zram only
what its cgroup has swapped out. Version 2 takes copies for swapped, so there they do count.

Memory that does not compress gains nothing there. Once a quarter of what the trial holds lies in
its swap, it shows whether all would fit, if the rest compressed alike. If not, the board has no
memory left: the trial is ended as the board's kernel would end it, unless this kernel did so first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from edgebench.cgroups.files import is_busy
from edgebench.cgroups.interface import HotFiles
from edgebench.cgroups.swap import Compressed, SwapRam
from edgebench.errors import CgroupError
from edgebench.records import Doubt, SwapRamReport, TrialRecord
from edgebench.swap_areas import SwapArea
from edgebench.units import MIB

_INTERVAL_S = 0.1
#: What is in no area's count for a moment: slots that each CPU keeps, pages on their way.
_UNCERTAIN_BYTES = 1 << 20
KEY = "other_swap_bytes"


class SwapWatch:
    """Reads within a ``with`` block; then :meth:`told` completes the trial's record.

    Args:
        own: the trial's own area; None: it has none, and nothing is read.
        read_areas: reads the machine's swap areas; None where they can't be read.
        read_group: reads how much swap the trial's cgroup has in use; None: not known.
    """

    def __init__(
        self,
        own: Path | None,
        read_areas: Callable[[], Mapping[Path, SwapArea] | None],
        read_group: Callable[[], int | None],
    ) -> None:
        self._own, self._read_areas, self._read_group = own, read_areas, read_group
        self._before: Mapping[Path, SwapArea] | None = None
        self._grown_bytes: int | None = None
        self._elsewhere_bytes = 0
        self._where: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="swap", daemon=True)

    def __enter__(self) -> SwapWatch:
        """Begin."""
        self._before = self._read_areas() if self._own else None
        if self._before is not None:
            self._grown_bytes = 0
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._ended.set()
        if self._before is not None:
            self._thread.join()

    def told(self, record: TrialRecord) -> TrialRecord:
        """Add what was read to the record, and a doubt if the trial's own area was passed over."""
        if self._own is None:
            return record
        if self._grown_bytes is None:
            why = "/proc/swaps can't be read"
            return replace(record, missing={**record.missing, KEY: why})
        doubts = record.doubts
        if self._elsewhere_bytes > _UNCERTAIN_BYTES:
            elsewhere = {"swap_bytes": float(self._elsewhere_bytes)}
            doubts = [*doubts, Doubt("other_swap_area", elsewhere, self._where)]
        return replace(record, other_swap_bytes=self._grown_bytes, doubts=doubts)

    def _run(self) -> None:
        while not self._ended.wait(_INTERVAL_S):
            self.read()

    def read(self) -> None:
        """One reading."""
        group = self._read_group()
        areas = self._read_areas()
        after = self._read_group()
        if self._own is None or areas is None or self._before is None:
            return
        others = {name: area.used_bytes for name, area in areas.items() if name != self._own}
        growth = {name: used - _used(self._before, name) for name, used in others.items()}
        grown = {name: more for name, more in growth.items() if more > 0}
        total = sum(grown.values())
        self._grown_bytes = max(self._grown_bytes or 0, total)
        if group is None or after is None:
            return
        # The lesser of the two: it may swap, or give swap back, between the readings.
        elsewhere = min(total, min(group, after) - _used(areas, self._own))
        if elsewhere > self._elsewhere_bytes:
            self._elsewhere_bytes = elsewhere
            self._where = sorted(map(str, grown))


def _used(areas: Mapping[Path, SwapArea], name: Path) -> int:
    return areas[name].used_bytes if name in areas else 0


def group_swap(hot: HotFiles) -> Callable[[], int | None]:
    """Return a function that reads the cgroup's swap in use without flushing statistics."""

    def read() -> int | None:
        if hot.swap is None:
            return None
        try:
            usage = int(hot.usage.read_text(errors="replace")) if hot.swap_is_memsw else 0
            return int(hot.swap.read_text(errors="replace")) - usage
        except OSError:
            return None

    return read


_CHARGE_INTERVAL_S = 0.01
#: The limit is not moved for less, and not lowered by more below what is used: until that is
#: reclaimed, the kernel holds this thread up.
_STEP_BYTES, _MOST_BYTES = MIB, 2 * MIB
#: What is left for the trial at least: below it the kernel can't reclaim, so nothing is left.
_FLOOR_SHARE, _FLOOR_BYTES = 1 / 32, 4 * MIB
#: Above the limit by so much is above it; so many readings in a row are no passing state.
_SLACK_SHARE, _SLACK_BYTES = 1 / 32, 2 * MIB
_READINGS = 4
#: So many refusals in a row are no passing state either.
_REFUSALS = 50
#: How memory compresses is known once this share of it was swapped.
_KNOWN_SHARE = 0.25
#: Why a walk's swap is not counted.
FAST_DISK = "a walk uses it as a fast disk"


class SwapCharge:
    """Moves the limit within a ``with`` block; then :meth:`told` completes the trial's record.

    Args:
        ram: what the swap takes; None: nothing, and nothing is done.
        limit_bytes: the trial's limit of memory; None: it has none.
        move: sets the limit and says how the kernel has it.
        used: reads what the cgroup is charged for.
        files: reads what of that are files, which can be dropped; only where memory runs out.
        swapped: reads what the cgroup has swapped out; None: not known.
        kill: ends the trial.
        not_charged: why the limit is left alone; None: it is moved.
    """

    def __init__(
        self,
        ram: SwapRam | None,
        limit_bytes: int | None,
        *,
        move: Callable[[int], int | None],
        used: Callable[[], int],
        files: Callable[[], int],
        swapped: Callable[[], int | None],
        kill: Callable[[], None],
        not_charged: str | None = None,
    ) -> None:
        self._ram = ram if limit_bytes is not None or not_charged else None
        self._limit, self._now = limit_bytes or 0, limit_bytes or 0
        self._move, self._used, self._files, self._kill = move, used, files, kill
        self._swapped = swapped
        self._not_charged = not_charged
        self._most_bytes = self._over = self._refused = 0
        self._least = self._limit
        #: Whether limit and swap met, so that the harness ended the trial.
        self.ran_out = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="swap charge", daemon=True)

    def __enter__(self) -> SwapCharge:
        """Begin."""
        if self._ram:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._ended.set()
        if self._ram:
            self._thread.join()

    @property
    def moves(self) -> bool:
        """Whether it may move the limit."""
        return self._ram is not None and self._not_charged is None

    def _run(self) -> None:
        wait_s = _CHARGE_INTERVAL_S
        while not self._ended.wait(wait_s):
            try:
                # While the limit is not yet as low as it is to be, there is nothing to wait for.
                wait_s = 0.0 if self.step() else _CHARGE_INTERVAL_S
            except OSError:
                # The cgroup is gone.
                return

    def step(self) -> bool:
        """One reading, and the limit that follows from it; True: a further step is due."""
        now = self._read()
        if now is None or self.ran_out:
            return False
        taken, used = now.taken_bytes, self._used()
        self._most_bytes = max(self._most_bytes, taken)
        if not self.moves:
            return False
        over = used + taken - self._limit - max(_SLACK_BYTES, round(_SLACK_SHARE * self._limit))
        is_known = now.held_bytes >= _KNOWN_SHARE * (now.held_bytes + used)
        # At most so much is gained by swapping out the rest, as it compresses.
        is_lost = is_known and over > max(0, (1 - now.share) * used)
        self._over = self._over + 1 if is_lost else 0
        is_due = not is_lost and self._lower(taken, used)
        is_stuck = over > 0 and self._refused >= _REFUSALS
        if is_stuck or (self._over >= _READINGS and over > self._files()):
            self.ran_out = True
            self._kill()
        return is_due

    def _read(self) -> Compressed | None:
        """Return what lies in its swap, without copies of pages that are back."""
        now = self._ram.read() if self._ram else None
        # What is of all programs can't be compared with this one's.
        own = None if now is None or self._ram is None or self._ram.doubt else self._swapped()
        if now is None or own is None or own >= now.held_bytes:
            return now
        own = max(0, own)
        return Compressed(own, round(now.share * own))

    def _lower(self, taken: int, used: int) -> bool:
        """Move the limit towards what the swap leaves of it; whether it is not there yet."""
        floor = min(self._limit, max(_FLOOR_BYTES, round(_FLOOR_SHARE * self._limit)))
        wanted = max(floor, self._limit - taken)
        if abs(wanted - self._now) < _STEP_BYTES:
            return False
        next_bytes = max(wanted, min(used, self._now) - _MOST_BYTES)
        try:
            self._now = self._move(next_bytes) or next_bytes
        except CgroupError as error:
            if not is_busy(error):
                raise
            # The kernel could not reclaim so much at once: what it did is a step, more follow.
            self._refused += 1
            return False
        self._refused = 0
        self._least = min(self._least, self._now)
        return next_bytes > wanted

    def told(self, record: TrialRecord) -> TrialRecord:
        """Return the record with what the swap took."""
        if self._ram is None:
            return record
        report = SwapRamReport(
            kind=self._ram.kind,
            peak_bytes=self._most_bytes,
            limit_least_bytes=self._least if self.moves else None,
            ran_out=self.ran_out,
            not_charged=self._not_charged,
            doubt=self._ram.doubt or None,
        )
        record = replace(record, swap_ram=report)
        if self._not_charged and self._most_bytes >= MIB:
            taken = {"taken_bytes": float(self._most_bytes)}
            doubt = Doubt("uncounted_swap_ram", taken, [report.kind])
            record = replace(record, doubts=[*record.doubts, doubt])
        return record
