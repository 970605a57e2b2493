"""Scenarios made from a verb's flags, without a file; and a flag that changes one of a file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from pydantic import ValidationError

from edgebench.boards.storage import parse_storage
from edgebench.errors import UsageError
from edgebench.scenario.faults import faults_of, flag_error
from edgebench.scenario.flags import NETWORK_KEYS, PLACE_KEYS, PROGRAM_KEYS
from edgebench.scenario.keys import network_name
from edgebench.scenario.limits import GRID, WALK
from edgebench.scenario.scenario import SCHEMA, Scenario, scenario_of
from edgebench.workloads.engines.engine import file_engine


def scenario_from_flags(
    verb: str, workload: Mapping[str, Any], limits: Mapping[str, Any], **keys: Any
) -> Scenario:
    """Return the scenario of one network or command; values that are None keep their defaults.

    ``keys`` are the scenario's own, beside its tables.

    Raises:
        UsageError: a value is not possible; names the flag that sets it.
    """
    network = workload.get("network")
    subject = network_name(network) if network else PurePath(workload["command"][0]).name
    # In letters, digits and hyphens, without a folder.
    plain = re.sub(r"[^a-z0-9]+", "-", subject.lower()).strip("-")
    tables = {
        "schema": SCHEMA,
        "name": f"{verb}-{plain}"[:64].strip("-"),
        **keys,
        "workload": {key: value for key, value in workload.items() if value is not None},
        "limits": dict(limits),
    }
    try:
        return scenario_of(tables)
    except ValidationError as error:
        faults = faults_of(error, Scenario, tables, "")
        raise flag_error(faults, verb) from error


def tried_scenario(
    verb: str,
    subject: str | Sequence[str],
    memory: Sequence[str],
    given: Mapping[str, Any],
    **fixed: Any,
) -> Scenario:
    """Return the scenario of a verb that tries limits.

    Args:
        verb: its name.
        subject: a network, or a program's words.
        memory: the limits.
        given: the flags' keys of the workload and the limits, and ``timeout``; None: not given.
        fixed: keys of the workload that the verb sets itself.

    Raises:
        UsageError: a value is not possible; names the flag that sets it.
    """
    if isinstance(subject, str):
        workload: dict[str, Any] = {"kind": "inference", "network": subject}
        workload |= {key: given.get(key) for key in NETWORK_KEYS}
        if not (workload["schedule"] or workload["new_tokens"] or file_engine(subject)):
            workload["schedule"] = "bulk"
    else:
        workload = {"kind": "command", "command": list(subject), "cwd": str(Path.cwd())}
        for key in PROGRAM_KEYS:
            value = given.get(key)
            workload[key] = list(value) or None if isinstance(value, tuple) else value
    places = {key: given[key] for key in PLACE_KEYS if given.get(key) is not None}
    return scenario_from_flags(
        verb,
        {**workload, **fixed},
        {"memory": memory, **places},
        repeats=1,
        timeout=given.get("timeout") or "2m",
    )


def layer_scenario(
    network: str,
    memory: Sequence[str] = (),
    *,
    repeats: int | None = None,
    plan: str = GRID,
    **given: Any,
) -> Scenario:
    """Return the scenario that ``edgebench layers`` measures, from the values of its flags.

    The unlimited point is always among its points. Without ``repeats``, three trials at each limit,
    or one walk, which has many rounds.

    Raises:
        UsageError: a value is not possible; names the flag that sets it. Or the network is in a
            file whose engine times no layers.
    """
    places = {name: given.pop(name, None) for name in ("swap", "storage", "board")}
    limits = {name: value for name, value in places.items() if value is not None}
    limits |= {"memory": ["max", *(limit for limit in memory if limit != "max")], "plan": plan}
    workload = {"kind": "inference", "network": network, **given}
    if (engine := file_engine(network)) is None:
        workload["schedule"] = given.get("schedule") or "bulk"
    elif engine.layer_option is None:
        minimum = f"edgebench minimum {shlex.quote(network)}"
        raise UsageError(
            f"{engine.title} executes {network} as a whole, and its layers can't be timed",
            remedy=f"{minimum}; at one limit: {minimum} --within 200M",
        )
    else:
        workload[engine.layer_option] = True
    repeats = repeats if repeats is not None else 1 if plan == WALK else 3
    return scenario_from_flags("layers", workload, limits, repeats=repeats)


def with_storage(scenario: Scenario, label: str) -> Scenario:
    """Return the scenario with another storage; a comment at the top of its text says so.

    Raises:
        UsageError: no storage speed.
    """
    storage = parse_storage(label).label
    limits = scenario.limits.model_copy(update={"storage": (storage,)})
    changed = scenario.model_copy(update={"limits": limits})
    changed._text = f"# Run with --storage {storage}, not with the storage below.\n{scenario.text}"
    return changed
