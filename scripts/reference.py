"""Write the tables of keys in docs/reference, and those of flags in docs/verbs, from the code.

``python scripts/reference.py`` writes them; ``--check`` only tells whether they are up to date. A
table stands between ``<!-- keys: CLASS -->`` or ``<!-- flags: VERB -->`` and ``<!-- end -->``.
A flag's row is its help. Flags that docs/index.md explains for several verbs share the last row.
Each field has an entry under ``Args:`` in its class's docstring: ``name: what it is. None: why.``
of a record, ``name: what it is. Default: which.`` of a scenario, whose axes
have a star. Fields may share an entry.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
from msgspec import Struct
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from edgebench import records
from edgebench.cli.verbs import VERBS, load_verb
from edgebench.results.columns import field_kinds
from edgebench.scenario import limits, scenario, training, workloads
from edgebench.scenario.keys import OneOf, distinct

DOCS = Path(__file__).parents[1] / "docs"
PAGES = (
    *(DOCS / "reference" / name for name in ("results.md", "scenarios.md")),
    *(DOCS / "verbs" / f"{verb}.md" for verb in VERBS),
)
_PART = re.compile(r"(<!-- (keys|flags): (\w+) -->\n).*?(<!-- end -->)", re.S)
_DEFAULT = re.compile(r"\.?\s*\[default: (.+)\]\.?$")
#: What stands for a flag's value, by the name of its click type.
_VALUES = {"integer": "N", "float": "X", "choice": "NAME", "text": "TEXT"}
_ENTRY = re.compile(r"^ {4}([a-z_]+(?:, [a-z_]+)*): (.+(?:\n {8}.+)*)", re.MULTILINE)
_KINDS = {str: "text", dict: "object"}
#: More choices than these are in the help of ``edgebench init`` and in a fault's message.
_MOST_CHOICES = 8


def classes() -> dict[str, type]:
    """Each class that the pages may name."""
    modules = (records, scenario, workloads, training, limits)
    found = (one for module in modules for one in vars(module).values() if isinstance(one, type))
    return {one.__name__: one for one in found if issubclass(one, (Struct, BaseModel))}


def entries(described: type) -> dict[tuple[str, ...], str]:
    """Fields → what they are, from the docstring."""
    _, _, args = inspect.cleandoc(described.__doc__ or "").partition("Args:\n")
    found = _ENTRY.findall(args)
    return {tuple(names.split(", ")): " ".join(text.split()) for names, text in found}


def check_fields(described: type, names: set[str]) -> None:
    """Each field has one entry, and each entry is of a field.

    Raises:
        ValueError: one has none, or there is no such field.
    """
    listed = [name for group in entries(described) for name in group]
    wrong = sorted({*names} ^ {*listed}) or [n for n in listed if listed.count(n) > 1]
    if wrong:
        raise ValueError(f"{described.__name__}: {', '.join(wrong)}: one entry each under Args:")


def record_table(part: type[Struct]) -> Iterator[str]:
    """The rows of a record's part."""
    kinds = field_kinds(part)
    check_fields(part, set(kinds))
    yield from ("| key | meaning |", "| --- | --- |")
    for names, text in entries(part).items():
        words = dict.fromkeys(_kind_word(kinds[name]) for name in names)
        keys = ", ".join(f"`{name}`" for name in names)
        yield f"| {keys} {' '.join(words)} | {_markdown(text).replace('None:', 'Null:')} |"


def scenario_table(table: type[BaseModel]) -> Iterator[str]:
    """The rows of a scenario's table."""
    fields = {info.alias or name: info for name, info in table.model_fields.items()}
    keys = {name: info for name, info in fields.items() if info.examples}
    check_fields(table, set(keys))
    yield from ("| key | meaning | default | example |", "| --- | --- | --- | --- |")
    for (name, *_), text in entries(table).items():
        meaning, _, default = text.partition(" Default: ")
        words = [meaning.rstrip(".")]
        if name != "kind" and (choices := _choices(keys[name])):
            words += ["(" + ", ".join(f"`{one}`" for one in choices) + ")"]
        star = " *" if distinct in _checks(keys[name]) else ""
        shown = _markdown(default.rstrip(".") or _toml(keys[name].default))
        example = (keys[name].examples or [""])[0]
        cell = "" if f"`{example}`" == shown else f"`{example}`"
        yield f"| `{name}`{star} | {_markdown(' '.join(words))} | {shown} | {cell} |"


def shared_flags() -> set[str]:
    """The flags that docs/index.md explains for several verbs."""
    rows = re.findall(r"^\| (`--.+?) \|", (DOCS / "index.md").read_text(), re.MULTILINE)
    return {flag for row in rows for flag in re.findall(r"`(--[a-z-]+)", row)}


def flag_table(verb: str) -> Iterator[str]:
    """The rows of a verb's flags; those of several verbs share one."""
    options = verb_options(verb)
    others = [x.help for other in VERBS if other != verb for x in verb_options(other)]
    shared = [
        option.opts[0]
        for option in options
        if option.opts[0] in shared_flags()
        and (option.opts[0] == "--json" or others.count(option.help) > 0)
    ]
    yield from ("| flag | meaning |", "| --- | --- |")
    for option in options:
        if option.opts[0] in shared:
            continue
        value = "" if option.is_flag else f" {value_word(option)}"
        names = [*option.opts, *option.secondary_opts]
        keys = ", ".join(f"`{name}{value if name.startswith('--') else ''}`" for name in names)
        yield f"| {keys} | {flag_meaning(option)} |"
    if shared:
        keys = ", ".join(f"`{flag}`" for flag in shared)
        yield f"| {keys} | [As in other verbs](../index.md#flags-of-several-verbs). |"


def verb_options(verb: str) -> list[click.Option]:
    """The options of a verb, in the order of its help."""
    command = load_verb(verb)
    return [param for param in command.params if isinstance(param, click.Option)]


def value_word(option: click.Option) -> str:
    """What stands for an option's value."""
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Path):
        only_folders, only_files = not option.type.file_okay, not option.type.dir_okay
        return "FOLDER" if only_folders else "FILE" if only_files else "PATH"
    return _VALUES[option.type.name.removesuffix(" range")]


def flag_meaning(option: click.Option) -> str:
    """An option's help, its choices and its default."""
    text = " ".join((option.help or "").split())
    written = _DEFAULT.search(text)
    words = [_DEFAULT.sub("", text).rstrip(".") + "."]
    if isinstance(option.type, click.Choice):
        words.append("One of " + ", ".join(f"`{choice}`" for choice in option.type.choices) + ".")
    if written:
        words.append(f"Default: {written[1]}.")
    elif not option.is_flag and isinstance(option.default, str | int | float | Path):
        words.append(f"Default: `{option.default}`.")
    return _markdown(" ".join(words))


def _kind_word(kind: type) -> str:
    return "object" if issubclass(kind, Struct) else _KINDS.get(kind, kind.__name__)


def _markdown(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")


def _checks(info: FieldInfo) -> list[Any]:
    """What checks a key's values, those within an axis too."""

    def inner(kind: Any) -> Iterator[Any]:
        yield from getattr(kind, "__metadata__", ())
        for one in get_args(kind):
            yield from inner(one)

    found = (*info.metadata, *inner(info.annotation))
    return [one.func for one in found if hasattr(one, "func")]


def _choices(info: FieldInfo) -> tuple[str, ...]:
    """What a text may be, where it is one of a few."""
    found = next((tuple(one.choices) for one in _checks(info) if type(one) is OneOf), ())
    return found if len(found) <= _MOST_CHOICES else ()


def _toml(value: Any) -> str:
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, tuple) and len(value) == 1:
        (value,) = value
    return "none" if value in (None, (), {}, "") else f"`{json.dumps(value)}`"


def filled(page: str) -> str:
    """The page with its tables made anew."""
    known = classes()

    def table(match: re.Match[str]) -> str:
        _, kind, name, _ = match.groups()
        if kind == "flags":
            rows = flag_table(name)
        elif issubclass(known[name], Struct):
            rows = record_table(known[name])
        else:
            rows = scenario_table(known[name])
        return match[1] + "\n" + "\n".join(rows) + "\n\n" + match[4]

    return _PART.sub(table, page)


def main() -> int | str:
    """Write the pages, or check them; an error's text if one is out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    for page in PAGES:
        text = page.read_text()
        made = filled(text)
        if check and made != text:
            return f"{page} is out of date; type: python scripts/reference.py"
        if not check:
            page.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
