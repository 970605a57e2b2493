"""The form: made from a scenario's typed keys, and read back as a scenario.

What the form does not show can't be sent either. So no path, no command and no free text gets
through: see :mod:`edgebench.serve.form_keys`, and :mod:`edgebench.serve.offered` for files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from edgebench.scenario.faults import faults_of
from edgebench.scenario.preview import preview, this_machine
from edgebench.scenario.scenario import SCHEMA, Scenario, scenario_of
from edgebench.serve.form_keys import example_of, keys_of
from edgebench.serve.offered import Offered

_WORKLOAD, _TOP = "workload", "scenario"


def tables(offered: Offered) -> dict[str, Any]:
    """Every table of a scenario with its keys; of the workload, one table a kind."""
    fields = Scenario.model_fields
    kinds = {_kind_of(model): keys_of(model) for model in _models(fields[_WORKLOAD])}
    inner = {
        info.alias or name: keys_of(model)
        for name, info in fields.items()
        if name != _WORKLOAD
        for model in _models(info)
        if _can_be_filled_in(model)
    }
    shown = {
        kind: [asdict(key) for key in offered.keys(kind, keys) if key.name != "kind"]
        for kind, keys in kinds.items()
        if all(key.name != "command" for key in keys) and kind != "command"
    }
    rest = {_TOP: keys_of(Scenario), **inner}
    return {
        _WORKLOAD: shown,
        **{name: [asdict(key) for key in keys] for name, keys in rest.items()},
    }


def check(sent: Mapping[str, Any], offered: Offered) -> dict[str, Any]:
    """What the page sent, as ``edgebench check`` sees it: a scenario, or every fault.

    With faults ``{"faults": [{"key", "says"}]}``; else ``name``, ``scenario`` (TOML), ``points``,
    ``trials``, ``longest_s`` and ``warnings``.
    """
    if strange := _strange_keys(sent, tables(offered)):
        return {"faults": [{"key": key, "says": "is no key of the form"} for key in strange]}
    data = {"schema": SCHEMA, **sent.get(_TOP, {})}
    data |= {name: table for name, table in sent.items() if name != _TOP and table}
    try:
        data |= {_WORKLOAD: offered.placed(sent.get(_WORKLOAD, {}))}
        scenario = scenario_of(data)
    except ValidationError as error:
        faults = faults_of(error, Scenario, data, "")
        return {"faults": [{"key": fault.key, "says": fault.says} for fault in faults]}
    except ValueError as error:
        return {"faults": [{"key": f"{_WORKLOAD}.start", "says": str(error)}]}
    seen = preview(scenario, this_machine())
    return {
        "name": scenario.name,
        "scenario": scenario.text,
        "points": len(seen.points),
        "trials": seen.trials + seen.own_trials,
        "longest_s": seen.longest_s,
        "warnings": list(seen.warnings),
    }


def _strange_keys(sent: Mapping[str, Any], known: Mapping[str, Any]) -> list[str]:
    """What was sent that the form does not have."""
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
        # A table or a list of them is no value of any key that the form has.
        bad = [key for key in values if key not in names or not _is_plain(values[key])]
        strange += [f"{table}.{key}" for key in bad]
    return strange


def _is_plain(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return all(isinstance(one, str | int | float) for one in values)


def _models(info: FieldInfo) -> list[type[BaseModel]]:
    """The tables that a key may hold."""
    found: list[type[BaseModel]] = []

    def look(annotation: Any) -> None:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            found.append(annotation)
        for part in get_args(annotation):
            look(part)

    look(info.annotation)
    return found


def _can_be_filled_in(model: type[BaseModel]) -> bool:
    """Whether the form can ask for all that the table needs."""
    asked = {key.name for key in keys_of(model)}
    needed = {info.alias or n for n, info in model.model_fields.items() if info.is_required()}
    return needed <= asked


def _kind_of(model: type[BaseModel]) -> str:
    return str(example_of(model.model_fields["kind"]))
