"""Trials that a limit ended, and words for kills."""

from __future__ import annotations

import re
import signal as signals

from edgebench.records import KillReport, Outcome, TrialRecord
from edgebench.units import format_size

#: With at least this share of the swap free, a lack of swap can't have been the cause.
MOSTLY_FREE = 0.5
#: Outcomes of a limit at which the workload does not finish.
LOST: tuple[Outcome, ...] = ("oom-killed", "accelerator-oom", "timeout", "failed")
#: Outcomes that show that a limit is too tight; other failures do not.
TOO_TIGHT = ("oom-killed", "timeout")
#: What a trial does that imports its runtime, as :func:`ended_in` says it.
IMPORTING = "importing its runtime"
#: How the reason of such an end says that, or which layer was under way.
_IN_IMPORT = re.compile(r" in import(?:;|$)")
_IN_LAYER = re.compile(r" in (load|first|execute) of .*?'s layer \d+ \(([^()]+)\)(?:;|$)")
_DOING = {"load": "loading", "first": "executing", "execute": "executing"}
#: Where such kills are explained.
OBSERVER_EFFECT = "docs/explanation/observer-effect.md"


def killed_words(kills: int, exit_code: int | None, timed_out_s: float | None = None) -> str:
    """``the kernel killed 1 process of it; the command itself ended with 0``.

    Args:
        kills: how many processes the kernel killed for memory.
        exit_code: of the first process; None if it was ended.
        timed_out_s: how long the trial had run when its time limit ended it; None if it did not.
    """
    rest = f"the command itself ended with {exit_code}"
    if timed_out_s is not None:
        rest = f"what was left ran past its time limit after {timed_out_s:.1f} s"
    return f"the kernel killed {kills} process{'es' if kills > 1 else ''} of it; {rest}"


def ended_in(outcome: str | None, reason: str | None) -> str:
    """What a trial was doing when its limit ended it: ``loading classifier.1``.

    :data:`IMPORTING`, or a layer; empty of anything else, and of other ends.
    """
    if outcome not in TOO_TIGHT or not reason:
        return ""
    if _IN_IMPORT.search(reason):
        return IMPORTING
    layer = _IN_LAYER.search(reason)
    return f"{_DOING[layer[1]]} {layer[2]}" if layer else ""


def is_killed(exit_code: int | None, signal: int | None) -> bool:
    """Whether the first process was killed itself."""
    return signal == signals.SIGKILL or exit_code is None


def swap_was_free(kill: KillReport | None) -> bool | None:
    """Whether most of the swap that the trial might use was free at the kill.

    None: nothing was killed, or that is not known.
    """
    if kill is None or kill.swap_allowed_bytes is None or kill.swap_free_bytes is None:
        return None
    return 0 < kill.swap_allowed_bytes <= kill.swap_free_bytes / MOSTLY_FREE


#: Where a reason begins to say how much swap was free at the kill.
WITH_SWAP_FREE = "; killed while "
_NOTHING_TO_RECLAIM = f"the kernel found nothing it could reclaim; see {OBSERVER_EFFECT}"


def swap_free_words(kill: KillReport | None) -> str:
    """A sentence on a kill while swap was free; empty for any other."""
    if kill is None or not swap_was_free(kill):
        return ""
    free, allowed = format_size(kill.swap_free_bytes), format_size(kill.swap_allowed_bytes)
    return f"{WITH_SWAP_FREE}{free} of {allowed} of swap were free: {_NOTHING_TO_RECLAIM}"


def brief_reason(record: TrialRecord) -> str | None:
    """The reason of a trial's end without the numbers of that one trial."""
    if record.killed_with_swap_free:
        return f"killed while most of its swap was free: {_NOTHING_TO_RECLAIM}"
    return record.reason


def needs_explanation(record: TrialRecord) -> bool:
    """A kill that the outcome alone doesn't explain: the command went on, or swap was free."""
    odd = record.exit_code == 0 or record.killed_with_swap_free is True
    return record.outcome == "oom-killed" and odd
