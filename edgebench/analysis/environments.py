"""Environments as text: names of their entries, values, and differences between two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: What may explain that one sweep is slower than another, and what it is called.
NAMES = {
    "device": "device",
    "board": "board",
    "cpu_model": "processor",
    "cpu_cores_usable": "usable cores",
    "governor": "governor",
    "architecture": "architecture",
    "os": "system",
    "kernel": "kernel",
    "swappiness": "swappiness",
    "page_cluster": "page cluster",
    "weights_disk": "disk under weights",
    "swap_file_disk": "disk under swap files",
    "damon": "DAMON",
    "zswap": "zswap",
    "lru_gen": "multi-gen LRU",
    "memory_daemons": "memory daemons",
    "ballooning": "ballooning",
    "thp": "huge pages",
    "page_reporting_order": "free pages reported from order",
    "python": "Python",
    "edgebench": "edgebench",
}


def value_text(value: object) -> str:
    """Any value of an environment as one line."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{str(k).replace('_', ' ')} {value_text(v)}" for k, v in value.items())
    if isinstance(value, list):
        return " and ".join(map(value_text, value)) or "none"
    return str(value)


def environment_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Where two environments differ, a line each; what one of them never looked at is left out."""
    return [
        f"{name}: {value_text(a[key])} in a, {value_text(b[key])} in b"
        for key, name in NAMES.items()
        if key in a and key in b and a[key] != b[key]
    ]
