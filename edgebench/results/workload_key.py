"""What was run: which trials are alike but for their memory limit, and what they are called."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from msgspec import structs

from edgebench.boards import emulation_words, storage_words
from edgebench.records import LIMIT_WORDS, WRITTEN, LimitSetting, is_number
from edgebench.text import AS_IS, format_size
from edgebench.workloads.recorder import DEFAULT

#: Kinds of workload with the setting ``gc``.
_COLLECTED = ("inference", "training", "convolution", "scan", "hot-base")
#: Settings that every name has; others are added where two names would be equal.
_IN_NAME = {"network", "schedule", "loader", "command", "batch"}
#: Separates the words of a name.
_SEPARATOR = " · "
#: The limits in which trials of one workload differ.
MEMORY = ("label", *WRITTEN)
#: All other limits: trials that differ in one are of different workloads.
HELD = tuple(name for name in LimitSetting.__struct_fields__ if name not in MEMORY)
#: Swap: an unlimited trial with another one still tells what no limit costs.
SWAP = ("swap_kind", "swap_bytes")
#: Setting of training or an engine → its usual value, not in the label; the words for another.
_USUAL: dict[str, tuple[Any, str]] = {
    "learning_rate": (None, "rate {:g}"),
    "data": (None, "{}"),
    "shape": (None, "{}"),
    "framework": ("pytorch", "{}"),
    "compiled": (False, "compiled"),
    "depth": (None, "{} deep"),
    "width": (None, "{} wide"),
    "activation": ("relu", "{}"),
    "accumulation": (1, "in {} parts"),
    "precision": ("float32", "{}"),
    "checkpointing": (False, "checkpointing"),
    "trained": ("all", "trained {}"),
    "start": ("scratch", "from {}"),
    "arena": (True, "no arena"),
    "memory_pattern": (True, "no memory pattern"),
    "optimization": ("all", "optimization {}"),
    "prepacking": (True, "no prepacking"),
    "node_times": (False, "node times"),
    "xnnpack": (True, "no XNNPACK"),
    "prompt": (None, "prompt {}"),
    "new_tokens": (None, "{} new tokens"),
    "onednn": (True, "no oneDNN"),
    "xla": (False, "XLA"),
    "accelerator": (None, "{}"),
    "threads": (None, "threads {}"),
    "malloc_trim": (False, "malloc_trim"),
    "interop_threads": (None, "inter-op threads {}"),
    "huge_pages": (True, "no huge pages"),
    "remedy": (None, "{}"),
}


@dataclass(frozen=True)
class WorkloadKey:
    """What was run, and below which limits other than memory.

    Trials of a sweep with equal keys differ in their memory limit alone. ``settings`` is canonical
    JSON of the workload's settings without the place of its weights; ``limits`` has no memory.
    """

    settings: str
    limits: LimitSetting

    @classmethod
    def of(cls, settings: Mapping[str, Any], limits: LimitSetting) -> WorkloadKey:
        """Return the key of a trial or point with these settings and limits."""
        kept = {k: v for k, v in settings.items() if k != "weights" and v is not None}
        # Older records do not say that the collector was on.
        if kept.get("gc") == DEFAULT:
            del kept["gc"]
        text = json.dumps(kept, sort_keys=True, default=str)
        return cls(text, but_for(limits, MEMORY))

    @cached_property
    def id(self) -> str:
        """Twelve hexadecimal digits, the same in every sweep."""
        limits = {name: getattr(self.limits, name) for name in HELD}
        told = {name: value for name, value in limits.items() if value is not None}
        text = self.settings + json.dumps(told, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()

    @cached_property
    def any_swap(self) -> WorkloadKey:
        """The same for workloads that differ in their swap alone."""
        return replace(self, limits=but_for(self.limits, SWAP))


def but_for(limits: LimitSetting, names: tuple[str, ...]) -> LimitSetting:
    """Return the limits, with these as if they were not asked for."""
    return structs.replace(limits, **{name: getattr(_NOTHING, name) for name in names})


_NOTHING = LimitSetting()


def settings_columns(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as plain columns: networks joined by ``+``, a command as one would type it.

    Mappings and lists (weights' folders, environment variables) stay in the record alone. Before
    ``gc`` was a setting, the collector was left on.
    """
    if settings.get("kind") in _COLLECTED:
        settings = {"gc": DEFAULT, **settings}
    columns = {k: v for k, v in settings.items() if isinstance(v, (str, bool)) or is_number(v)}
    networks = settings.get("networks") or settings.get("network")
    if isinstance(networks, list):
        columns["network"] = "+".join(map(str, networks))
    if isinstance(command := settings.get("command"), list):
        columns["command"] = shlex.join(map(str, command))
    return columns


def workload_label(settings: Mapping[str, Any]) -> str:
    """``alexnet · linear · copy · batch 1``."""
    columns = settings_columns(settings)
    named = [columns.get(key) for key in ("network", "schedule", "loader", "optimizer", "command")]
    words = [str(word) for word in named if word]
    words += [f"{key} {columns[key]}" for key in ("kernel", "stack", "draw") if key in columns]
    if columns.get("batch") is not None:
        words.append(f"batch {columns['batch']}")
    words += [
        how.format(columns[name])
        for name, (usual, how) in _USUAL.items()
        if columns.get(name) not in (None, usual)
    ]
    if settings.get("gc") == DEFAULT:
        words.append("gc default")
    return " · ".join(words) or str(columns.get("kind", "workload"))


def other_limits_label(limits: LimitSetting) -> str:
    """Return the limits other than memory: `` · swap file 2.00 GiB · 2 cores``."""
    words = [emulation_words(limits.board)] if limits.board else []
    size = "" if limits.swap_bytes is None else f" {format_size(limits.swap_bytes)}"
    words += [f"swap {limits.swap_kind}{size}"]
    words += [] if limits.storage == AS_IS else [storage_words(limits.storage)]
    asked = {name: getattr(limits, name) for name in LIMIT_WORDS}
    words += [LIMIT_WORDS[name].format(value) for name, value in asked.items() if value is not None]
    if limits.accelerator_bytes is not None:
        words.append(f"accelerator {format_size(limits.accelerator_bytes)}")
    return "".join(f" · {word}" for word in words)


def workload_names(run: Sequence[tuple[Mapping[str, Any], LimitSetting]]) -> list[str]:
    """Return a name for each workload; two equal names get the settings in which they differ."""
    names = [f"{workload_label(settings)}{other_limits_label(limits)}" for settings, limits in run]
    alike = Counter(names)
    columns = [settings_columns(settings) for settings, _ in run]
    return [
        name + _differences(own, [c for n, c in zip(names, columns, strict=True) if n == name])
        if alike[name] > 1
        else name
        for name, own in zip(names, columns, strict=True)
    ]


def _differences(own: Mapping[str, Any], group: Sequence[Mapping[str, Any]]) -> str:
    keys = [key for key in dict.fromkeys(k for one in group for k in one) if key not in _IN_NAME]
    different = [key for key in keys if len({str(one.get(key)) for one in group}) > 1]
    return "".join(f" · {key} {own[key]}" for key in different if own.get(key) is not None)


def short_names(names: Sequence[str]) -> tuple[dict[str, str], str]:
    """Each name without the words that all share, and these words; a single name is kept."""
    parts = {name: name.split(_SEPARATOR) for name in names}
    shared = set.intersection(*map(set, parts.values())) if len(parts) > 1 else set()
    brief = {
        name: _SEPARATOR.join(word for word in own if word not in shared) or name
        for name, own in parts.items()
    }
    first = next(iter(parts.values()), [])
    return brief, _SEPARATOR.join(word for word in first if word in shared)


def brief_names(names: Iterable[str]) -> dict[str, str]:
    """Each workload's name without the words that all share; its network, if nothing is left."""
    brief, _ = short_names(list(dict.fromkeys(names)))
    return {name: b if b != name else name.split(_SEPARATOR)[0] for name, b in brief.items()}
