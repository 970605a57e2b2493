"""Trials that a limit ended, and words for kills."""

from __future__ import annotations

from edgebench.records import KillReport, Outcome, TrialRecord

#: With at least this share of the swap free, a lack of swap can't have been the cause.
MOSTLY_FREE = 0.5
#: Outcomes of a limit at which the workload does not finish.
LOST: tuple[Outcome, ...] = ("oom-killed", "accelerator-oom", "timeout", "failed")
#: Outcomes that show that a limit is too tight; other failures do not.
TOO_TIGHT = ("oom-killed", "timeout")
#: Where such kills are explained.
OBSERVER_EFFECT = "docs/explanation/observer-effect.md"


def swap_was_free(kill: KillReport | None) -> bool | None:
    """Whether most of the swap that the trial might use was free at the kill.

    None: nothing was killed, or that is not known.
    """
    if kill is None or kill.swap_allowed_bytes is None or kill.swap_free_bytes is None:
        return None
    return 0 < kill.swap_allowed_bytes <= kill.swap_free_bytes / MOSTLY_FREE


def is_locked(kill: KillReport) -> bool:
    """Whether most of what could not be reclaimed at a kill was locked in memory."""
    lists = (kill.active_anon_bytes, kill.inactive_anon_bytes, kill.active_file_bytes)
    return (kill.unevictable_bytes or 0) > sum(size or 0 for size in lists)


def needs_explanation(record: TrialRecord) -> bool:
    """Tell whether the outcome alone doesn't explain a kill.

    The command went on, or swap was free.
    """
    odd = record.exit_code == 0 or record.killed_with_swap_free is True
    return record.outcome == "oom-killed" and odd
