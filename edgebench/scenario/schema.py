"""A JSON Schema of scenarios, by which an editor completes keys and explains them.

It is made from the tables themselves, but knows nothing of what they check with code: it accepts
every scenario that edgebench does, and some that ``run --dry-run`` refuses.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from edgebench.scenario.keys import KINDS, OneOf, as_axis
from edgebench.scenario.limits import storage_label
from edgebench.scenario.scenario import Scenario

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_Schema = dict[str, Any]
#: What a file holds where a size, a share or a duration is parsed.
_WRITTEN: _Schema = {"type": ["string", "number"]}
_ENTRY = re.compile(r"^ {8}(\w+): (.+(?:\n {12}.+)*)", re.MULTILINE)
#: Defaults and bounds are of parsed values.
_LEFT_OUT = ("title", "default", "ge", "le")


def scenario_schema() -> _Schema:
    """Return the schema, as JSON holds it."""
    made: _Schema = _of_file(Scenario.model_json_schema(schema_generator=_Generator))
    return {"$schema": GenerateJsonSchema.schema_dialect, "title": "edgebench scenario", **made}


class _Generator(GenerateJsonSchema):
    """Where a value is parsed, the schema is of what is parsed."""

    def function_before_schema(self, schema: Any) -> _Schema:
        check = schema["function"]["function"]
        parsed = super().function_before_schema(schema)
        if isinstance(check, OneOf):
            names = {"enum": list(check.choices)}
            # A network or a data set may be the user's own.
            return names if type(check) is OneOf else {"anyOf": [names, {"type": "string"}]}
        if check is as_axis:
            return {"anyOf": [parsed["items"], {**parsed, "minItems": 1}]}
        if parsed.get("type") in ("array", "object"):
            return parsed
        table = [{"type": "object"}] if check is storage_label else []
        return {"anyOf": [parsed, _WRITTEN, *table]} if "$ref" in parsed or table else _WRITTEN

    def model_schema(self, schema: Any) -> _Schema:
        made = super().model_schema(schema)
        text = schema["cls"].__doc__ or ""
        made["description"] = text.partition("\n")[0]
        about = dict(_ENTRY.findall(text))
        for name, one in made.get("properties", {}).items():
            if name in about:
                one["description"] = " ".join(about[name].split()).replace("``", "`")
            if examples := one.pop("examples", ()):
                one["examples"] = [tomllib.loads(f"x = {text}")["x"] for text in examples]
            if one.get("enum") == list(KINDS):
                one["enum"] = one["examples"]
        return made


def _of_file(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_of_file(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _of_file(one) for key, one in schema.items() if key not in _LEFT_OUT}
