"""The plans that a sweep's trials can follow, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: All limits; those that tell most; those that a living process is moved through.
GRID, WALK = "grid", "walk"
PLANS = (GRID, "adaptive", WALK)
#: Kinds of workload with rounds between which a walk can move the limit.
WALKED_KINDS = ("inference", "training")
#: The key that only this plan has.
PLAN_KEYS = {"target_error": "adaptive", "target": WALK, "starts": WALK}


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
