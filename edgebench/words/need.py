"""What is said of a need: what of it can't be dropped, and what is read again when dropped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath

from edgebench.need import Need
from edgebench.records import FilesReport, TrialRecord
from edgebench.text import printable
from edgebench.units import MIB, brief_size, format_size

#: Less than this charged elsewhere is not worth a word.
_WORTH_BYTES, _WORTH_SHARE = MIB, 0.05


def need_words(need: Need, size: Callable[[float], str] = format_size) -> str:
    """``412 MiB``, or ``55 MiB that can't be dropped and 320 MiB of files that are …``."""
    if not (files := need.files_bytes):
        return size(need.total_bytes)
    held, dropped = size(need.total_bytes - files), size(files)
    return f"{held} that can't be dropped and {dropped} of files that are read again when dropped"


def elsewhere_words(need: Need) -> str:
    """What of the files no limit counted, since they could not be evicted; empty for nothing."""
    if not need.has_much_elsewhere:
        return ""
    size = brief_size(need.elsewhere_bytes)
    return f" ({size} of the files stay in memory for another program too: no limit counted them)"


def warm_files_words(record: TrialRecord) -> str:
    """What of its files lay in the page cache before a single trial; empty for little."""
    files = record.files
    warm = files.warm_bytes if files else None
    if files is None or warm is None:
        return ""
    if warm < max(_WORTH_BYTES, _WORTH_SHARE * (record.peak_bytes or 0)):
        return ""
    name, *others = (PurePath(path).name for path in files.paths)
    more = f" and {len(others)} more" if others else ""
    what = "the peak does" if record.limit_bytes is None else "the limit and the peak do"
    words = (
        f"{format_size(warm)} of the files that it uses ({printable(name)}{more}) were in the page "
        f"cache already and are charged elsewhere, so {what} not count them"
    )
    if can_be_evicted(files):
        return f"{words}: --file evicts them beforehand"
    return f"{words}: they can't be evicted, since another program has them mapped or locked"


def can_be_evicted(files: FilesReport) -> bool:
    """Whether most of what was cached can still be evicted."""
    return 2 * files.kept_bytes <= (files.warm_bytes or 0)
