"""Storage by name: ``sd-a1``, ``emmc``, ``nvme``; each with its speeds and their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from edgebench.boards.toml_files import FOLDER, Source, read_toml, sources_of
from edgebench.errors import UsageError
from edgebench.storage_speed import StorageSpeed, storage_of
from edgebench.text import did_you_mean


@dataclass(frozen=True)
class StoragePreset:
    """One kind of storage; a speed that no source was found for is None: not held."""

    name: str
    title: str
    speed: StorageSpeed
    sources: tuple[Source, ...]


@lru_cache(maxsize=1)
def storage_presets() -> Mapping[str, StoragePreset]:
    """Every kind of storage that has a name."""
    path = FOLDER / "storage.toml"
    made = {}
    for name, table in read_toml(path).items():
        given = {k: v for k, v in table.items() if k not in ("title", "sources")}
        sources = sources_of(table, f"{path}: {name}")
        made[name] = StoragePreset(name, table["title"], storage_of(given), sources)
    return made


def storage_preset(name: str) -> StoragePreset:
    """The preset of that name.

    Raises:
        UsageError: there is none; names the nearest.
    """
    known = storage_presets()
    if name in known:
        return known[name]
    guess = did_you_mean(name, known)
    hint = f"did you mean {guess!r}?" if guess else f"one of {', '.join(known)}"
    raise UsageError(f"no storage {name!r}; {hint}", remedy="edgebench boards --storage lists them")
