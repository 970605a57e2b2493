"""One board: its RAM and what is left of it, cores, storage and swap, with the sources."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any

from edgebench.boards.storage import (
    FOLDER,
    Source,
    StorageSpeed,
    read_toml,
    sources_of,
    storage_of,
    storage_preset,
)
from edgebench.errors import UsageError
from edgebench.text import did_you_mean
from edgebench.units import MIB, format_size, parse_size, parse_swap

#: Version of a board's file.
SCHEMA = 1
#: What the system itself uses where no source says it: an assumption, and shown as one.
ASSUMED_IDLE_BYTES = 256 * MIB
_SIZES = {"ram": "ram_bytes", "gpu_memory": "gpu_bytes"}
_SIZES |= {"visible_ram": "visible_bytes", "idle_memory": "idle_bytes"}
_TEXTS = ("title", "core", "system", "kernel")
_COUNTS = ("cores", "cgroup")
_KEYS = {"schema", *_SIZES, *_TEXTS, *_COUNTS, "storage", "speeds", "swap", "sources"}
_NEEDED = ("title", "ram", "cores")


class Fit(Enum):
    """Whether what a board has is enough for a program and for the libraries that it maps.

    Libraries are charged to whoever read them first, so no limit of a trial counts them.
    """

    ENOUGH = "enough"
    #: It finishes, but slower than asked for.
    SLOW = "slow"
    #: Enough without the libraries: these are read again and again.
    LIBRARIES = "libraries"
    TOO_LITTLE = "too little"


@dataclass(frozen=True)
class Board:
    """A board. What is None, no source was found for.

    Args:
        name: as it is written on the command line.
        title: as its maker calls it, with its RAM.
        ram_bytes: all of its RAM; of that ``gpu_bytes`` are the GPU's as shipped.
        visible_bytes: what Linux shows as the whole memory (``MemTotal``).
        idle_bytes: what the shipped system uses when idle.
        cores, core: how many CPU cores, and which.
        storage: names of presets; the first is what the board is emulated with.
        speeds: of some of them what this board's own slot makes of it.
        swap: as the system is shipped, as ``zram:2048MiB``; None: unknown.
        system, kernel, cgroup: the shipped system, its Linux, its version of cgroups.
        sources: where the numbers are from.
    """

    name: str
    title: str
    ram_bytes: int
    cores: int
    gpu_bytes: int | None = None
    visible_bytes: int | None = None
    idle_bytes: int | None = None
    core: str | None = None
    storage: tuple[str, ...] = ()
    speeds: Mapping[str, StorageSpeed] | None = None
    swap: str | None = None
    system: str | None = None
    kernel: str | None = None
    cgroup: int | None = None
    sources: tuple[Source, ...] = ()

    @property
    def usable_bytes(self) -> int:
        """RAM that Linux has: as it shows it, else what the GPU doesn't take."""
        return self.visible_bytes or self.ram_bytes - (self.gpu_bytes or 0)

    @property
    def left_bytes(self) -> int:
        """RAM that programs can have beside the system, in whole MiB."""
        idle = ASSUMED_IDLE_BYTES if self.idle_bytes is None else self.idle_bytes
        return (self.usable_bytes - idle) // MIB * MIB

    def fit(
        self, enough_bytes: float, finished_bytes: float | None, library_bytes: float | None
    ) -> Fit:
        """Whether it is enough.

        Args:
            enough_bytes: what was enough here, without libraries.
            finished_bytes: with what it finished here, if slower than asked for; None: unknown.
            library_bytes: what it maps of libraries; None: not known.
        """
        left, beside = self.left_bytes, library_bytes or 0
        least = enough_bytes if finished_bytes is None else min(enough_bytes, finished_bytes)
        if left >= enough_bytes + beside:
            return Fit.ENOUGH
        if left >= least + beside:
            return Fit.SLOW
        return Fit.LIBRARIES if left >= least else Fit.TOO_LITTLE

    @property
    def memory_label(self) -> str:
        """The same as a scenario writes a limit: ``3724M``."""
        return f"{self.left_bytes // MIB}M"

    @property
    def left_words(self) -> str:
        """What is left, and of what: ``3.64 GiB of 4.00 GiB; the system uses 220.0 MiB``."""
        idle = ASSUMED_IDLE_BYTES if self.idle_bytes is None else self.idle_bytes
        uses = f"the system uses {format_size(idle)}"
        uses += " (an assumption)" if self.idle_bytes is None else " when idle"
        return f"{format_size(self.left_bytes)} of {format_size(self.ram_bytes)}; {uses}"

    @property
    def speed(self) -> StorageSpeed:
        """The speed of the storage that it is emulated with; nothing held if that is unknown."""
        return self.speed_of(self.storage[0]) if self.storage else StorageSpeed()

    def speed_of(self, name: str) -> StorageSpeed:
        """Return a preset's speed on this board: its slot may be slower than the medium.

        Raises:
            UsageError: no such preset.
        """
        own = (self.speeds or {}).get(name, StorageSpeed())
        given = {key: value for key, value in vars(own).items() if value is not None}
        return replace(storage_preset(name).speed, **given)

    @property
    def cores_here(self) -> int:
        """How many of its cores this machine can give."""
        return min(self.cores, len(os.sched_getaffinity(0)))

    def not_emulated(self, swap: str, *, walks: bool) -> str:
        """Return what this machine does not emulate of it with this swap, in one sentence.

        ``walks``: whether limits are moved in a living process.
        """
        found = ["the speed of CPU and memory, which are this machine's"]
        found.append("pages of libraries, which no limit here counts")
        if self.cores_here < self.cores:
            found.append(f"{self.cores} cores (this machine has {self.cores_here})")
        if walks and swap.startswith("zram"):
            found.append("the RAM that zram takes, which a walk does not count")
        return f"not emulated: {'; '.join(found)}"

    @property
    def used_swap(self) -> str:
        """The shipped swap, as ``--swap`` takes it; ``none`` where it is unknown."""
        return self.swap or "none"


@lru_cache(maxsize=1)
def known_boards() -> Mapping[str, Board]:
    """Every board that comes with edgebench, by name."""
    files = sorted((FOLDER / "files").glob("*.toml"))
    return {path.stem: board_from_file(path) for path in files}


def board_names() -> tuple[str, ...]:
    """Return the names of all boards, without reading their files."""
    return tuple(sorted(path.stem for path in (FOLDER / "files").glob("*.toml")))


def board_title(name: str) -> str:
    """Return the board's title; of one that this version doesn't know the name itself."""
    try:
        return find_board(name).title
    except UsageError:
        return name


def emulation_words(name: str) -> str:
    """For a caption: what was emulated, and where."""
    return f"{board_title(name)} (emulated on this machine)"


def find_board(name: str) -> Board:
    """Return the board of that name, or of a path to a board's file.

    Raises:
        UsageError: there is none, with the nearest name; or its file is not one.
    """
    if name.endswith(".toml"):
        return board_from_file(Path(name))
    known = known_boards()
    if name in known:
        return known[name]
    guess = did_you_mean(name, known)
    hint = f"; did you mean {guess!r}?" if guess else ""
    raise UsageError(f"no board {name!r}{hint}", remedy="edgebench boards lists them")


def board_from_file(path: Path) -> Board:
    """Return the board of a file.

    Raises:
        UsageError: no such file, a key that it lacks or that isn't one, or a value that is none.
    """
    table = read_toml(path)
    where = str(path)
    if unknown := sorted(table.keys() - _KEYS):
        known = ", ".join(sorted(_KEYS))
        raise UsageError(f"no key {unknown[0]!r}", where=where, remedy=f"use some of {known}")
    if missing := [key for key in _NEEDED if key not in table]:
        raise UsageError(f"no {missing[0]}", where=where, remedy=f"add {missing[0]} = …")
    if table.get("schema") != SCHEMA:
        raise UsageError(f"schema is not {SCHEMA}", where=where, remedy=f"write schema = {SCHEMA}")
    try:
        return _board(path.stem, table, where)
    except UsageError as error:
        raise UsageError(error.what, where=error.where or where, remedy=error.remedy) from None
    except (TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"no board: {error}", where=where, remedy="see docs/boards.md") from None


def _board(name: str, table: Mapping[str, Any], where: str) -> Board:
    made: dict[str, Any] = {_SIZES[k]: _size(k, v) for k, v in table.items() if k in _SIZES}
    made |= {key: str(table[key]) for key in _TEXTS if key in table}
    made |= {key: _count(key, table[key]) for key in _COUNTS if key in table}
    storage = tuple(table.get("storage", ()))
    for one in (*storage, *table.get("speeds", {})):
        storage_preset(one)
    if "swap" in table:
        parse_swap(table["swap"])
        made["swap"] = table["swap"]
    return Board(
        name=name,
        storage=storage,
        speeds={one: storage_of(speeds) for one, speeds in table.get("speeds", {}).items()},
        sources=sources_of(table, where),
        **made,
    )


def _size(key: str, value: object) -> int:
    size = parse_size(str(value))
    if size is None:
        raise UsageError(f"{key} = {value!r} is not a size", remedy=f'write {key} = "4GiB"')
    return size


def _count(key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{key} = {value!r} is not a count", remedy=f"write {key} = 4")
    return value
