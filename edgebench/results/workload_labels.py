"""Which workloads are the same, and what they are called."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from edgebench.results.sweep_reader import settings_columns
from edgebench.workloads.memory_settings import DEFAULT

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
    "xnnpack": (True, "no XNNPACK"),
    "prompt": (None, "prompt {}"),
    "new_tokens": (None, "{} new tokens"),
    "onednn": (True, "no oneDNN"),
    "xla": (False, "XLA"),
    "accelerator": (None, "{}"),
    "threads": (None, "{} threads"),
    "malloc_trim": (False, "malloc_trim"),
    "interop_threads": (None, "{} inter-op threads"),
    "huge_pages": (True, "no huge pages"),
    "page_advice": (None, "{}"),
    "remedy": (None, "{}"),
}


def workload_key(settings: Mapping[str, Any]) -> str:
    """Equal for two workloads that do the same, wherever their weights lie."""
    kept = {k: v for k, v in settings.items() if k != "weights" and v is not None}
    # Older records do not say that the collector was on.
    if kept.get("gc") == DEFAULT:
        del kept["gc"]
    return json.dumps(kept, sort_keys=True, default=str)


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
