"""The form: made from a scenario's typed keys, and read back as a scenario.

Keys that the form does not show are refused. So no path and no command gets through:
:mod:`edgebench.serve.form_keys` shows none, and files are named, not their paths
(:mod:`edgebench.serve.form_files`). Code is imported only from the folder of ``serve --files``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ValidationError

from edgebench.boards.board import board_names
from edgebench.scenario.faults import faults_of, tables_in
from edgebench.scenario.preview import preview, this_machine
from edgebench.scenario.scenario import SCHEMA, Scenario, scenario_of
from edgebench.serve.form_files import FormFiles, UnnamedFileError, as_list
from edgebench.serve.form_keys import example_of, keys_of

_WORKLOAD, _TOP = "workload", "scenario"


def form_tables(files: FormFiles) -> dict[str, Any]:
    """Every table of a scenario with its keys; for the workload, one table for each kind."""
    fields = Scenario.model_fields
    shown = {}
    for model in tables_in(fields[_WORKLOAD].annotation):
        kind = str(example_of(model.model_fields["kind"]))
        keys = files.keys(kind, keys_of(model))
        shown[kind] = [asdict(key) for key in keys if key.name != "kind"]
    del shown["command"]
    rest = {
        info.alias or name: [asdict(key) for key in keys_of(model)]
        for name, info in fields.items()
        if name != _WORKLOAD
        for model in tables_in(info.annotation)
        if _can_be_filled_in(model)
    }
    return {_WORKLOAD: shown, _TOP: [asdict(key) for key in keys_of(Scenario)], **rest}


def check_form(sent: Mapping[str, Any], files: FormFiles) -> dict[str, Any]:
    """What ``edgebench run --dry-run`` says of a filled-in form.

    If it has faults, ``{"faults": [{"key", "says"}]}``; otherwise ``name``, ``scenario`` (TOML),
    ``points``, ``trials``, ``longest_s`` and ``warnings``.
    """
    if strange := _strange_keys(sent, form_tables(files)):
        return {"faults": [{"key": key, "says": "is not a key of this form"} for key in strange]}
    if unlisted := _unlisted_boards(sent):
        return {"faults": unlisted}
    data = {"schema": SCHEMA, **sent.get(_TOP, {})}
    data |= {name: table for name, table in sent.items() if name != _TOP and table}
    try:
        data |= {_WORKLOAD: files.with_paths(sent.get(_WORKLOAD, {}))}
        scenario = scenario_of(data)
    except UnnamedFileError as error:
        return {"faults": [{"key": f"{_WORKLOAD}.{error.key}", "says": str(error)}]}
    except ValidationError as error:
        faults = faults_of(error, Scenario, data, "")
        return {"faults": [{"key": fault.key, "says": fault.says} for fault in faults]}
    seen = preview(scenario, this_machine())
    return {
        "name": scenario.name,
        "scenario": scenario.text,
        "points": len(seen.points),
        "trials": seen.trials + seen.own_trials,
        "longest_s": seen.longest_s,
        "warnings": list(seen.warnings),
    }


def _unlisted_boards(sent: Mapping[str, Any]) -> list[dict[str, str]]:
    """Faults of boards that are no known names: a path would have the server read that file."""
    given = as_list(sent.get("limits", {}).get("board") or [])
    says = "is not one of the boards that come with edgebench; choose one from the list"
    strange = [one for one in given if one not in board_names()]
    return [{"key": "limits.board", "says": f"{one!r} {says}"} for one in strange]


def _strange_keys(sent: Mapping[str, Any], known: Mapping[str, Any]) -> list[str]:
    """The sent keys that the form does not have."""
    strange = []
    for table, values in sent.items():
        if table not in known or not isinstance(values, Mapping):
            strange.append(table)
            continue
        shown = known[table]
        if table == _WORKLOAD:
            kind = values.get("kind")
            if not isinstance(kind, str) or kind not in shown:
                strange.append(f"{_WORKLOAD}.kind")
                continue
            shown = [{"name": "kind"}, *shown[kind]]
        names = {key["name"] for key in shown}
        # No key of the form takes a table or a list of tables.
        bad = [key for key in values if key not in names or not _is_plain(values[key])]
        strange += [f"{table}.{key}" for key in bad]
    return strange


def _is_plain(value: Any) -> bool:
    return all(isinstance(one, str | int | float) for one in as_list(value))


def _can_be_filled_in(model: type[BaseModel]) -> bool:
    """Whether the form has all keys that the table needs."""
    needed = {info.alias or n for n, info in model.model_fields.items() if info.is_required()}
    return needed <= {key.name for key in keys_of(model)}
