"""What a trial needs: memory that can't be dropped, and files that are read again when dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.records import WITH_PEAK, TrialRecord

#: What the sampler of an earlier version missed counts from this share of the peak on.
_UNSEEN = 0.05
#: Needs that differ by more than this share, and by more than the kernel's batches of pages.
DIFFERS, _SAME_BYTES = 0.05, 1 << 20
#: Files are told apart from the rest of a need from this share of it on, and this size.
_FILES_SHARE, _FILES_BYTES = 0.05, 1 << 20


@dataclass(frozen=True)
class Need:
    """A need in bytes.

    Args:
        total_bytes: all of it.
        undroppable_bytes: what only swap can hold; None: not known.
        elsewhere_bytes: files in the total that another cgroup was charged for.
    """

    total_bytes: float
    undroppable_bytes: float | None = None
    elsewhere_bytes: float = 0

    @property
    def has_much_elsewhere(self) -> bool:
        """Whether so much was charged to another cgroup that limits were kinder for it."""
        return self.elsewhere_bytes >= max(_FILES_BYTES, _FILES_SHARE * self.total_bytes)

    @property
    def files_bytes(self) -> float:
        """Files that are read again when dropped; 0 where they are too few to be told apart."""
        if self.undroppable_bytes is None:
            return 0
        files = self.total_bytes - self.undroppable_bytes
        return files if files >= max(_FILES_SHARE * self.total_bytes, _FILES_BYTES) else 0


def need_of(record: TrialRecord) -> Need | None:
    """Return a trial's need; None: not known.

    The demand, and what it used of files that were charged elsewhere. A demand of an earlier
    version lacks what the sampler missed: it gets what the kernel's peak has beyond the samples.
    """
    demand, undroppable = record.demand_bytes, record.undroppable_bytes
    if demand is None:
        return None
    if not (record.demand_source or "").endswith(WITH_PEAK):
        peak, sampled = record.peak_bytes or 0, record.sampled_peak_bytes
        late = record.files.late_bytes if record.files else 0
        unseen = peak - sampled - late if sampled is not None else 0
        unseen = unseen if unseen > _UNSEEN * peak else 0
        demand += unseen
        undroppable = None if undroppable is None else undroppable + unseen
    elsewhere = record.files.elsewhere_bytes or 0 if record.files else 0
    return Need(demand + elsewhere, undroppable, elsewhere)


def differs(least_bytes: float, most_bytes: float) -> bool:
    """Whether two needs differ by more than noise."""
    return most_bytes - least_bytes > max(DIFFERS * least_bytes, _SAME_BYTES)


def least_to_give(needs: Sequence[Need]) -> float | None:
    """Return the need, in bytes, if trials under limits need less than a first run; else None.

    Args:
        needs: of runs without a limit, in their order. Either only the first of them differs, for
            it left something behind; or much was charged to another cgroup, so that limits were
            kinder.
    """
    sizes = [need.total_bytes for need in needs]
    later = sizes[1:]
    is_first = len(later) > 1 and differs(max(later), sizes[0])
    is_first = is_first and not differs(min(later), max(later))
    is_kinder = is_first or any(need.has_much_elsewhere for need in needs)
    return max(sizes) if is_kinder else None
