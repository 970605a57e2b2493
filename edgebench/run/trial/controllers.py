"""What moves the limit of a living trial: if it fails, the trial could not be made.

A worker can ask before it goes on (:class:`LimitControl`), and the RAM of its swap is charged to
the limit (:class:`SwapCharge`).
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from edgebench.cgroups.files import is_busy
from edgebench.cgroups.interface import Cgroup, HotFiles, Limits
from edgebench.cgroups.swap import Compressed, SwapRam, SwapState, swap_ram
from edgebench.errors import CgroupError, MachineError
from edgebench.records import Doubt, SwapRamReport, TrialRecord
from edgebench.run.trial.record import RecordedRounds, TrialRequest
from edgebench.text import MIB

#: The setting of a workload that asks for a limit: bytes beyond what it uses then.
ROOM = "room_bytes"


class LimitControl(AbstractContextManager["LimitControl"]):
    """A connection to a worker, which waits for an answer each time that it asks."""

    def __init__(self) -> None:
        # Loaded where a limit moves.
        import socket

        self._ours, self._workers = socket.socketpair()
        # A worker that asks and takes no answer holds nobody up.
        self._ours.setblocking(False)

    @property
    def worker_fd(self) -> int:
        """The worker's end."""
        return self._workers.fileno()

    @property
    def wakes(self) -> Mapping[int, Callable[[], bool]]:
        """What wakes the harness, and what it does then."""
        return {self._ours.fileno(): self._answer}

    def __exit__(self, *_: object) -> None:
        """Close both ends."""
        self._ours.close()
        self._workers.close()

    def applied(self, limits: Limits) -> Limits:
        """Return the limits that the trial's record has.

        ``limits`` are those that it started with.
        """
        return limits

    def records(
        self, record: TrialRecord, events: Path, rounds: RecordedRounds
    ) -> list[TrialRecord]:
        """Return the records of a trial whose limit was moved, from that of the whole trial.

        Args:
            record: the whole trial's.
            events: the trial's file of events.
            rounds: which counts of its rounds are known.
        """
        return [record]

    def _reply(self, data: bytes) -> None:
        """Send the answer.

        Raises:
            ValueError: the worker asks again and again, and takes no answer.
        """
        try:
            self._ours.send(data)
        except BlockingIOError:
            raise ValueError("it asks to go on and takes no answer") from None

    @abstractmethod
    def _answer(self) -> bool:
        """Answer the worker; False: it asks no more.

        Raises:
            CgroupError: the kernel refused the limit.
        """


class LimitAtBase(LimitControl):
    """Limits a trial, once its worker asks, to what it uses then; the answer is the limit in bytes.

    Args:
        cgroup: the trial's.
        room_bytes: how much more it may use.
        swap_bytes: the trial's limit of swap, which stays.
    """

    def __init__(self, cgroup: Cgroup, room_bytes: int, swap_bytes: int | None) -> None:
        super().__init__()
        self._cgroup, self._room_bytes, self._swap_bytes = cgroup, room_bytes, swap_bytes
        self._limit_bytes: int | None = None

    def applied(self, limits: Limits) -> Limits:
        """Those with the limit that was set; it starts without one."""
        return replace(limits, memory_bytes=self._limit_bytes)

    def _answer(self) -> bool:
        self._ours.recv(1)
        used = int(self._cgroup.hot_files().usage.read_text(errors="replace"))
        limit = used + self._room_bytes
        self._limit_bytes = self._cgroup.move_memory_limit(limit, self._swap_bytes)
        self._reply(b"%d" % (self._limit_bytes or limit))
        return False


_INTERVAL_S = 0.01
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
#: Kinds of workload that calibrate a machine.
_CALIBRATING = ("scan", "hot-base")
#: Why a walk's swap is not counted.
FAST_DISK = "a walk uses it as a fast disk"


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


class SwapCharge:
    """Lowers the limit within a ``with`` block by the RAM that the trial's swap takes.

    Pages in zram lie in the same RAM as everything else, but no cgroup is charged for them. On a
    board of 228 MiB, 100 MiB in zram leave 128 MiB for the rest. So the limit is lowered by what
    the swap takes, and raised again as that shrinks. A thread of the harness does so: the kernel
    reclaims in that thread, outside the trial's cgroup.

    A page that was read back may keep its copy in zram until that room is needed (seen on Linux
    6.18: 59 MiB in zram, 20 MiB of them copies). Older kernels, as boards have, read past the swap
    cache and keep none (``SWP_SYNCHRONOUS_IO`` in mm/memory.c). So copies don't count: of a trial's
    own zram only what its cgroup has swapped out. Version 2 takes copies for swapped, so there they
    do count.

    Memory that does not compress gains nothing there. Once a quarter of what the trial holds lies
    in its swap, it shows whether all would fit, if the rest compressed alike. If not, the board has
    no memory left: the trial is ended as the board's kernel would end it, unless this kernel did so
    first.

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
        self._error: Exception | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="swap charge", daemon=True)

    @classmethod
    def of(cls, cgroup: Cgroup, request: TrialRequest, state: SwapState) -> SwapCharge:
        """Return the charge of a trial in that cgroup, with the swap that there is."""
        hot, limits = cgroup.hot_files(), request.limits
        # A calibration measures the swap itself.
        is_charged = limits.swap_kind != "none" and request.settings["kind"] not in _CALIBRATING

        def files_bytes() -> int:
            counters = cgroup.read()
            return max(0, (counters.file_bytes or 0) - (counters.shmem_bytes or 0))

        return cls(
            swap_ram(state) if is_charged else None,
            limits.memory_bytes,
            move=lambda size: cgroup.move_memory_limit(size, limits.swap_bytes, waits=False),
            used=lambda: int(hot.usage.read_text(errors="replace")),
            files=files_bytes,
            swapped=group_swap(hot),
            kill=cgroup.kill,
            not_charged=FAST_DISK if request.walk else None,
        )

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

    def check(self) -> None:
        """Check that the limit is moved; call it now and then, and at the end.

        Raises:
            MachineError: it is not, so the trial has another limit than its own.
        """
        if self._error:
            raise MachineError(f"the limit could not follow the RAM of its swap: {self._error}")

    def _run(self) -> None:
        wait_s = _INTERVAL_S
        while not self._ended.wait(wait_s):
            try:
                # While the limit is not yet as low as it is to be, there is nothing to wait for.
                wait_s = 0.0 if self.step() else _INTERVAL_S
            except Exception as error:  # whatever ends this thread ends the charge
                self._error = error
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

    def report(self) -> SwapRamReport | None:
        """Return what the swap took; None: nothing that is to be charged."""
        if self._ram is None:
            return None
        return SwapRamReport(
            kind="zram",
            peak_bytes=self._most_bytes,
            limit_least_bytes=self._least if self.moves else None,
            ran_out=self.ran_out,
            not_charged=self._not_charged,
            doubt=self._ram.doubt or None,
        )

    def doubts(self) -> list[Doubt]:
        """Return a doubt where much was taken and is not charged."""
        if self._ram is None or not self._not_charged or self._most_bytes < MIB:
            return []
        taken = {"taken_bytes": float(self._most_bytes)}
        return [Doubt("uncounted_swap_ram", taken, ["zram"])]
