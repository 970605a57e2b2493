"""The plans that a sweep's trials can follow, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgebench.layers.names import STREAM

#: Fresh trials at all limits; a living process that is moved through them.
GRID, WALK = "grid", "walk"
PLANS = (GRID, WALK)
#: Kinds of workload with rounds between which a walk can move the limit.
WALKED_KINDS = ("inference", "training")
#: The key that only this plan has.
PLAN_KEYS = {"target": WALK, "starts": WALK}


def check_plan(plan: str, kind: str, schedules: Sequence[str]) -> None:
    """Check that a workload of this kind, under these schedules, can follow the plan.

    Raises:
        ValueError: a walk of what can't be walked.
    """
    if plan != WALK:
        return
    if kind not in WALKED_KINDS:
        raise ValueError(f'a workload of kind "{kind}" has no rounds to walk; leave plan out')
    if STREAM in schedules:
        raise ValueError(
            f'in a walk the limit moves, and the schedule "{STREAM}" goes by one; leave plan out'
        )


def with_plan(tables: Mapping[str, Any], text: str, plan: str) -> tuple[dict[str, Any], str]:
    """A scenario's tables and text with that plan; its limits have no keys of other plans.

    A comment at the top of the text says so.
    """
    given = tables.get("limits", {})
    # What is no table is refused where the scenario is checked.
    if not isinstance(given, Mapping):
        return dict(tables), text
    kept = {key: value for key, value in given.items() if PLAN_KEYS.get(key, plan) == plan}
    note = f"# Run with --plan {plan}, not with the plan below.\n"
    return {**tables, "limits": {**kept, "plan": plan}}, note + text
