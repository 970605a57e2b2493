"""New scenarios: from a verb's flags, or as the text that ``init`` writes.

The text has every key that its reader may want to change, with what it does.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from pydantic import ValidationError

from edgebench.boards import parse_storage
from edgebench.errors import UsageError
from edgebench.installation import with_page_paths
from edgebench.layers.names import COPY, NETWORKS
from edgebench.scenario.flags import NETWORK_KEYS, PLACE_KEYS, PROGRAM_KEYS, TYPED
from edgebench.scenario.keys import faults_of, flag_error, network_name
from edgebench.scenario.limits import GRID, WALK
from edgebench.scenario.scenario import SCHEMA, Scenario, scenario_of
from edgebench.workloads.engines.engine import engine_of, file_engine
from edgebench.workloads.training.names import SHAPES, SYNTHETIC, USUAL_SHAPE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


#: Limits and swap where none are given: down to where most programs are slow or killed.
NEW_LIMITS, NEW_SWAP = ("85%", "70%", "55%", "40%"), "2G"
#: From here the comments begin, where a key and its value leave room.
_COMMENT_COLUMN = 31
_Line = tuple[str, object, str]


@dataclass(frozen=True)
class NewScenario:
    """What a person said of it: a network or a command, limits and swap as people write them."""

    kind: str
    network: str | None = None
    command: Sequence[str] = ()
    memory: Sequence[str] = NEW_LIMITS
    swap: str = NEW_SWAP

    @property
    def stem(self) -> str:
        """A name for it and for its file: small letters, digits and dashes."""
        words = self.network or ""
        if self.command:
            # The script says more than the interpreter that runs it.
            script = next((w for w in self.command[1:] if Path(w).suffix), self.command[0])
            words = Path(script).stem
        elif "/" in words:
            words = Path(words).name
        return re.sub(r"[^a-z0-9]+", "-", words.lower())[:64].strip("-") or "scenario"


def scenario_text(wanted: NewScenario, file: Path) -> tuple[str, Scenario]:
    """Return the text of its file, which passes `edgebench run --dry-run`, and what it means.

    Raises:
        UsageError: a value is not possible; names the argument or flag that sets it.
    """
    name = shlex.quote(str(file))
    memory = [label for label in wanted.memory if label != "max"]
    about: list[_Line] = [
        ("schema", SCHEMA, "version of this file's format"),
        ("name", wanted.stem, "part of the name of the results' folder: a-z, 0-9 and -"),
        ("seed", 1, "of the order of trials, and of random weights and input"),
        ("repeats", 3, "trials of each point; how far they differ is the noise"),
        ("timeout", "5m", "a trial that takes longer is stopped and recorded as timeout"),
    ]
    limits: list[_Line] = [
        ("memory", ["max", *memory], "max: no limit; 75%: of what it needs; or sizes, as 300M"),
        ("swap", wanted.swap, "a size: a temporary swap file (root); or none, system, zram:1G"),
        ("# cores", 2, "CPU cores that it may use"),
    ]
    text = (
        f"# Run it: edgebench run {name}. After a change: edgebench run {name} --dry-run\n"
        f"# All keys: {with_page_paths('docs/reference/scenarios.md')}\n{_lines(about)}"
        f"\n[workload]\n{_lines(_workload(wanted))}\n[limits]\n{_lines(limits)}"
    )
    try:
        text.encode()
        tables = tomllib.loads(text)
        context = {"folder": file.absolute().parent}
        return text, Scenario.model_validate(tables, context=context)
    except UnicodeEncodeError:
        raise UsageError("the command is not UTF-8 text", remedy="edgebench init --help") from None
    except ValidationError as error:
        faults = faults_of(error, Scenario, tables, text)
        raise flag_error(faults, "init", {**TYPED, "name": "--out"}) from error


def _workload(wanted: NewScenario) -> list[_Line]:
    network = wanted.network or ""
    if wanted.kind == "command":
        return [
            ("kind", "command", "any program, started as it is; no shell is involved"),
            ("command", list(wanted.command), "the program and its arguments"),
            ("# cwd", ".", "folder to start it in, relative to this file"),
            ("# env", {"OMP_NUM_THREADS": "2"}, "environment variables to add"),
        ]
    if wanted.kind == "training":
        shape = SHAPES.get(network, USUAL_SHAPE)
        return [
            ("kind", "training", "train the network step by step"),
            ("network", network, 'a list trains several: ["lenet", "resnet18"]'),
            ("data", SYNTHETIC, "random images; real data sets: edgebench data"),
            ("shape", shape, "of an image: channels, height, width"),
            ("optimizer", "sgd", "or momentum, adam, adagrad: each keeps more memory"),
            ("batch", 16, "images in a step; a list tries several: [4, 16]"),
            ("steps", 10, "training steps in a trial"),
            ("precision", "float32", "or bfloat16"),
            ("checkpointing", False, "true: recompute activations in the backward pass"),
        ]
    engine = file_engine(network)
    steps = 'load all layers, then execute them; or "linear": one by one'
    loader, weights = "mmap", 'weights are read again from the file; or "copy": memory that swaps'
    # The loader of a plain program.
    if (engine or engine_of(None)).loaders[0] == COPY:
        loader, weights = COPY, 'weights in memory that swaps; or "mmap": read again from the file'
    image: _Line = ("# image", 224, "width and height of the input; default: the network's")
    return [
        ("kind", "inference", "load the network's layers and execute them"),
        ("network", network, 'a list runs several: ["resnet18", "alexnet"]'),
        *([("schedule", "bulk", steps)] if engine is None else []),
        ("loader", loader, weights),
        ("batch", 1, "inputs that are executed at once"),
        *([image] if network in NETWORKS else []),
        ("rounds", 2, "passes inside a trial; each loads all layers again"),
        ("warm", 2, "further executions in each round, after the first"),
        ("page_cache", "cold", 'weights are read from the disk; or "warm": from memory'),
    ]


def _lines(lines: Sequence[_Line]) -> str:
    """``key = value``, and what it means beside it; above it where it has no room."""
    text = ""
    for key, value, meaning in lines:
        pair = f"{key} = {_toml(value)}"
        has_room = len(pair) < _COMMENT_COLUMN
        beside = f"{pair:<{_COMMENT_COLUMN}}# {meaning}\n"
        text += beside if has_room else f"# {meaning}\n{pair}\n"
    return text


def _toml(value: object) -> str:
    """Texts, numbers, truth and lists are written in TOML as in JSON; tables are not."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(own)}' for key, own in value.items())} }}"
    return json.dumps(value, ensure_ascii=False)


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
