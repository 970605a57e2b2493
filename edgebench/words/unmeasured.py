"""Sentences on what a program's trials do not tell: memory elsewhere, and memory that grows."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from edgebench.text import joined_words
from edgebench.units import MIB, brief_size, format_duration
from edgebench.words.need import need_words

if TYPE_CHECKING:
    from edgebench.need import Need
    from edgebench.results.point_facts import PointFacts
    from edgebench.results.unmeasured import Elsewhere, Unmeasured

#: How a container, and what runs elsewhere, is measured.
HOW_TO = "docs/how-to/inside-a-container.md"
_SEGMENT = "segment "
#: Where the work of a known client is measured.
_THERE = {
    **dict.fromkeys(
        ("docker", "podman", "nerdctl", "ctr", "kubectl", "oc", "lxc", "incus"),
        f"run edgebench inside the container ({HOW_TO})",
    ),
    **dict.fromkeys(("ssh", "mosh"), "run edgebench on that machine"),
    **dict.fromkeys(("srun", "sbatch"), "run edgebench within the job"),
    **dict.fromkeys(
        ("systemd-run", "systemctl", "machinectl"),
        "measure the command that it starts, without it",
    ),
    "ollama": "measure its server: edgebench minimum --for 60s -- ollama serve",
}
_ANYWHERE = f"measure what works there, not what asks for it ({HOW_TO})"


def unmeasured_parts(found: Unmeasured, *, repeats: bool = False) -> Iterator[str]:
    """Each thing that the answer leaves out or rests on, and what to type.

    Args:
        found: what the trials leave open.
        repeats: whether the program is run several times, so that a ``--reset`` can undo a run.
    """
    if found.elsewhere:
        yield client_words(found.elsewhere)
    if found.processes:
        yield _outlived_words(found)
    if found.left_bytes:
        yield _left_words(found, repeats=repeats)
    if found.locked_bytes:
        size = brief_size(found.locked_bytes)
        yield f"{size} are locked in memory (mlock), which no swap can hold"
    if found.growth and not found.is_stopped:
        lasted = format_duration(found.growth.lasted_s or 0.0)
        pace = pace_words(found)
        yield f"still growing by {pace} when it ended after {lasted}: a longer run needs more"


def unmeasured_notes(points: Iterable[PointFacts]) -> list[str]:
    """A line for each workload and each thing that its trials leave open."""
    known = ((one.workload, one.unmeasured) for one in points if one.unmeasured)
    found = [(name, words) for name, of in known for words in _notes(of)]
    return [f"{name}: {words}" for name, words in dict.fromkeys(found)]


def _notes(found: Unmeasured) -> Iterator[str]:
    if found.growth and found.is_stopped:
        yield growth_words(found)
    yield from unmeasured_parts(found)


def program_need_words(name: str, need: Need | None, found: Unmeasured) -> str:
    """``train.py needs 412.0 MiB``; where trials can't tell that, what it used and why."""
    if need is None and not found.growth:
        return f"{name}: its need is unknown"
    used = brief_size(need.total_bytes if need else found.growth.end_bytes if found.growth else 0)
    if found.growth and found.is_stopped:
        return f"{name} held {used} and is {growth_words(found)}"
    if found.hides_need and found.elsewhere:
        return f"{name} uses {used} itself; {client_words(found.elsewhere)}"
    return f"{name} needs {need_words(need) if need else used}"


def beside_need_parts(found: Unmeasured) -> Iterator[str]:
    """What :func:`program_need_words` leaves to be said of a program."""
    is_said = found.hides_need and not (found.growth and found.is_stopped)
    return unmeasured_parts(replace(found, elsewhere=None) if is_said else found)


def growth_words(found: Unmeasured, limit_bytes: float | None = None) -> str:
    """``still growing by 52 MiB/min after 20 s: no need can be told; 1 GiB is reached after …``."""
    assert found.growth is not None
    lasted = format_duration(found.growth.lasted_s or 0.0)
    words = f"still growing by {pace_words(found)} after {lasted}: no need can be told"
    after_s = found.reaches_s(limit_bytes) if limit_bytes else None
    if limit_bytes is None or after_s is None:
        return words
    return f"{words}; {brief_size(limit_bytes)} is reached after about {_about(after_s)}"


def pace_words(found: Unmeasured) -> str:
    """``52 MiB/min``."""
    per_minute = found.growth.bytes_per_s * 60 / MIB if found.growth else 0.0
    return f"{per_minute:,.0f} MiB/min" if per_minute >= 10 else f"{per_minute:.2g} MiB/min"


def client_words(found: Elsewhere) -> str:
    """Who seems to do the work, and where to measure it."""
    where = _THERE.get(found.client or "", _ANYWHERE)
    seen = ""
    if found.cgroup:
        seen = f"the cgroup {found.cgroup} grew by {brief_size(found.grown_bytes)} meanwhile"
    if not found.is_sure:
        return f"it does little itself, and {seen}: if its work is done there, {where}"
    who = f"the client {found.client} only waits" if found.client else "it only waits"
    return f"{who} for work that is done elsewhere{f' ({seen})' if seen else ''}: {where}"


def _outlived_words(found: Unmeasured) -> str:
    names = joined_words(found.names)
    if found.processes == 1:
        return (
            f"1 process outlived the command and was ended ({names}): what it needs from then on "
            "is not in the answer, --for 20s measures it too"
        )
    return (
        f"{found.processes} processes outlived the command and were ended ({names}): what they "
        "need from then on is not in the answer, --for 20s measures them too"
    )


def _left_words(found: Unmeasured, *, repeats: bool) -> str:
    stays = f"{brief_size(found.left_bytes)} stay in memory when it has ended"
    if not found.files:
        return f"{stays}, in shared memory that another program still uses"
    if not found.stays:
        return f"{stays}, in a shared segment that no other run can find: it was removed here"
    shown = [one.path for one in found.stays[:3]]
    names = joined_words(f"shared {one}" if _is_segment(one) else shlex.quote(one) for one in shown)
    remove = remove_command(found)
    if found.leaves_others:
        lists = "ipcs -m" if all(map(_is_segment, shown)) else "ls -l /dev/shm"
        each = f"each run leaves more: `{remove}` removes it, `{lists}` lists all"
        return f"{stays} ({names}), and {each}"
    if repeats:
        return f"{stays} ({names}): --reset {shlex.quote(remove)} removes it before each trial"
    return f"{stays} ({names}): `{remove}` removes it"


def remove_command(found: Unmeasured) -> str:
    """The command that removes what stayed in memory."""
    segments = [one.path.removeprefix(_SEGMENT) for one in found.stays if _is_segment(one.path)]
    files = [one.path for one in found.stays if not _is_segment(one.path)]
    if segments and not files:
        return shlex.join(["ipcrm", *(word for one in segments for word in ("-m", one))])
    return shlex.join(["rm", "-f", *files])


def _is_segment(path: str) -> bool:
    return path.startswith(_SEGMENT)


def _about(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.0f} hours"
