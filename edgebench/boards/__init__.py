"""Boards: RAM, cores, storage and swap of small computers, each number with its source.

``files/`` has a TOML file for each board, ``storage.toml`` the storage that boards have. What no
source was found for is left out. Nothing here needs a library beyond the standard one, since a
storage speed is parsed wherever a limit is.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any

from edgebench.errors import UsageError
from edgebench.safe_files import read_text
from edgebench.text import AS_IS, MIB, did_you_mean, format_size, parse_size, parse_swap

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent


#: The disk that is made in memory, as a storage names it.
RAM = "ram"
#: What to do where a speed can't be held: the end of a remedy's sentence.
AS_IS_REMEDY = "measure with the storage as it is: --storage as-is"
STORAGE_HELP = (
    'write "as-is", a name as sd-a1 (edgebench boards --storage), or speeds to hold it to: '
    "read=90MB/s,write=30MB/s,read_iops=2000,write_iops=500; add disk=ram for a disk in memory"
)
SPEED_HELP = 'write a speed with its unit: "90MB/s" (powers of 1000) or "90MiB/s" (of 1024)'
#: Smallest unit first; of two that fit, the first is used to write a speed.
_UNITS = {"B": 1}
_UNITS |= {unit: 1000**n for n, unit in enumerate(("kB", "MB", "GB"), start=1)}
_UNITS |= {unit: 1024**n for n, unit in enumerate(("KiB", "MiB", "GiB"), start=1)}
_SPEED = re.compile(rf"\s*([0-9]{{1,18}}(?:\.[0-9]{{1,18}})?)\s*({'|'.join(_UNITS)})/s\s*")
#: A preset's; speeds have an equals sign, and a number alone is none.
_NAME = re.compile(r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$")
#: Slower than any disk; a check of lower speeds would take minutes. Faster than any.
_LEAST_BPS, _MOST_BPS = 10**6, 10**12
_LEAST_IOPS, _MOST_IOPS = 10, 10**7
#: Key as people write it → attribute.
_SPEED_KEYS = {"read": "read_bps", "write": "write_bps"}
#: The key of the disk that is meant.
_DISK = "disk"


@dataclass(frozen=True)
class StorageSpeed:
    """The most that a disk may do in a second; None: not held.

    ``read_bps`` and ``write_bps`` are bytes, ``read_iops`` and ``write_iops`` requests. ``ram``:
    swap and weights are put on a disk in memory, which has no speed of its own to speak of.
    """

    read_bps: int | None = None
    write_bps: int | None = None
    read_iops: int | None = None
    write_iops: int | None = None
    ram: bool = False

    @property
    def as_is(self) -> bool:
        """Whether it is the machine's own, and nothing is held."""
        return self == StorageSpeed()

    @property
    def held(self) -> StorageSpeed:
        """The declared speeds alone."""
        return replace(self, ram=False)

    @property
    def label(self) -> str:
        """As a flag has it: ``read=90MB/s,read_iops=2000``; the same for all spellings of one."""
        words = {"read": self.read_bps, "write": self.write_bps}
        parts = [f"{key}={format_speed(value)}" for key, value in words.items() if value]
        counts = {"read_iops": self.read_iops, "write_iops": self.write_iops}
        parts += [f"{key}={value}" for key, value in counts.items() if value]
        parts += [f"disk={RAM}"] if self.ram else []
        return ",".join(parts) or AS_IS


_SPEED_KEYS |= {f.name: f.name for f in fields(StorageSpeed) if f.name.endswith("iops")}


def parse_storage(text: str) -> StorageSpeed:
    """Return the storage of ``"read=90MB/s,read_iops=2000"``, ``"sd-a1,disk=ram"`` or ``"as-is"``.

    Raises:
        UsageError: no speed, no unit, zero, an unknown key or name; the remedy shows how it is
            written.
    """
    if text.strip() == AS_IS:
        return StorageSpeed()
    first, _, rest = text.partition(",")
    named = _NAME.match(first.strip())
    preset = storage_preset(named[0]).speed if named else None
    if preset and not rest:
        return preset
    given: dict[str, str] = {}
    for part in (rest if preset else text).split(","):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals:
            raise UsageError(f"{part.strip()!r} is not a storage speed", remedy=STORAGE_HELP)
        if key in given:
            raise UsageError(f"{key!r} is given twice", remedy="leave one out")
        given[key] = value
    speed = storage_of(given)
    if preset and not speed.held.as_is:
        what = f"{rest.strip()!r} changes the speed of a storage that has a name"
        raise UsageError(what, remedy="write all speeds without the name, or disk=ram after it")
    return replace(preset, ram=speed.ram) if preset else speed


def storage_of(given: Mapping[str, Any]) -> StorageSpeed:
    """Return the storage of a table: ``{"read": "90MB/s", "read_iops": 2000, "disk": "ram"}``.

    Raises:
        UsageError: as :func:`parse_storage`.
    """
    if not given:
        raise UsageError("no speed is given", remedy=STORAGE_HELP)
    if unknown := [key for key in given if key not in (*_SPEED_KEYS, _DISK)]:
        known = ", ".join((*_SPEED_KEYS, _DISK))
        raise UsageError(f"no storage speed {unknown[0]!r}", remedy=f"use one of {known}")
    parsed = {
        _SPEED_KEYS[key]: _parse_iops(key, value) if key.endswith("iops") else parse_speed(value)
        for key, value in given.items()
        if key != _DISK
    }
    if (disk := given.get(_DISK, RAM)) != RAM:
        remedy = f"write {_DISK}={RAM}, or leave it out: then it is the machine's own"
        raise UsageError(f"{_DISK} = {disk!r} is not a disk to choose", remedy=remedy)
    return StorageSpeed(**parsed, ram=_DISK in given)


def parse_speed(text: object) -> int:
    """Bytes per second of ``"90MB/s"`` (powers of 1000) or ``"90MiB/s"`` (of 1024).

    Raises:
        UsageError: no number, no unit, not a second's; or out of range.
    """
    match = _SPEED.fullmatch(str(text))
    if not match:
        raise UsageError(f"{text!r} is not a speed", remedy=SPEED_HELP)
    bps = round(float(match[1]) * _UNITS[match[2]])
    if not _LEAST_BPS <= bps <= _MOST_BPS:
        what = f"{text!r} is not between {format_speed(_LEAST_BPS)} and {format_speed(_MOST_BPS)}"
        raise UsageError(what, remedy=f'give such a speed, or leave it out: "{AS_IS}"')
    return bps


def _parse_iops(key: str, value: object) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not text.isascii() or not text.isdigit():
        raise UsageError(
            f"{key} = {value!r} is not a whole number of requests per second",
            remedy=f"write it without a unit: {key}=2000",
        )
    iops = int(text)
    if not _LEAST_IOPS <= iops <= _MOST_IOPS:
        raise UsageError(
            f"{key} = {iops} is not between {_LEAST_IOPS} and {_MOST_IOPS}",
            remedy="give such a number, or leave it out: then requests are not held",
        )
    return iops


def format_speed(bps: int) -> str:
    """``"90MB/s"``, ``"90MiB/s"``: exact, in the unit that needs the fewest digits."""
    fitting = [(bps // size, unit) for unit, size in _UNITS.items() if bps % size == 0]
    number, unit = min(fitting, key=lambda pair: pair[0] if pair[0] else bps + 1)
    return f"{number}{unit}/s"


def round_speed(bps: float) -> str:
    """Return a measured speed: ``"87.3 MB/s"``."""
    return f"{bps / 1e6:.1f} MB/s"


def storage_words(label: str) -> str:
    """For a caption: ``storage as is``, ``storage held to read=90MB/s``."""
    if label == AS_IS:
        return "storage as is"
    speed = parse_storage(label)
    held = "" if speed.held.as_is else f"held to {speed.held.label}"
    return " ".join(filter(None, ["storage", "in memory" if speed.ram else "", held]))


@dataclass(frozen=True)
class Source:
    """Where numbers are from. ``of``: their keys; ``seen``: the day it was read, as 2026-11-22."""

    of: tuple[str, ...]
    title: str
    address: str
    seen: str


def read_toml(path: Path) -> dict[str, Any]:
    """Return the file's tables.

    Raises:
        UsageError: it can't be read, or is no TOML.
    """
    try:
        return tomllib.loads(read_text(path))
    except OSError as error:
        what, remedy = (
            f"the file can't be read: {error.strerror}",
            "edgebench boards lists those known",
        )
    except ValueError as error:
        what, remedy = f"not TOML: {error}", "correct that line"
    raise UsageError(what, where=str(path), remedy=remedy)


def sources_of(table: Mapping[str, Any], where: str) -> tuple[Source, ...]:
    """Return the table's ``[[sources]]``.

    Raises:
        UsageError: one lacks a key, or has another.
    """
    names = tuple(f.name for f in fields(Source))
    sources = []
    for row in table.get("sources", []):
        if not isinstance(row, dict) or sorted(row) != sorted(names):
            what = f"a source has the keys {', '.join(names)}"
            raise UsageError(what, where=where, remedy="complete each [[sources]]")
        sources.append(Source(tuple(row["of"]), *(str(row[name]) for name in names[1:])))
    return tuple(sources)


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
    presets = {}
    for name, table in read_toml(path).items():
        given = {k: v for k, v in table.items() if k not in ("title", "sources")}
        sources = sources_of(table, f"{path}: {name}")
        presets[name] = StoragePreset(name, table["title"], storage_of(given), sources)
    return presets


def storage_preset(name: str) -> StoragePreset:
    """Return the preset of that name.

    Raises:
        UsageError: there is none; names the nearest.
    """
    known = storage_presets()
    if name in known:
        return known[name]
    guess = did_you_mean(name, known)
    hint = f"did you mean {guess!r}?" if guess else f"one of {', '.join(known)}"
    raise UsageError(f"no storage {name!r}; {hint}", remedy="edgebench boards --storage lists them")


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
        slot = (self.speeds or {}).get(name, StorageSpeed())
        held = {key: value for key, value in vars(slot).items() if value is not None}
        return replace(storage_preset(name).speed, **held)

    @property
    def cores_here(self) -> int:
        """How many of its cores this machine can give."""
        return min(self.cores, len(os.sched_getaffinity(0)))

    def not_emulated(self, swap: str, *, walks: bool) -> str:
        """Return what this machine does not emulate of it with this swap, in one sentence.

        ``walks``: whether limits are moved in a living process.
        """
        lacking = ["the speed of CPU and memory, which are this machine's"]
        lacking.append("pages of libraries, which no limit here counts")
        if self.cores_here < self.cores:
            lacking.append(f"{self.cores} cores (this machine has {self.cores_here})")
        if walks and swap.startswith("zram"):
            lacking.append("the RAM that zram takes, which a walk does not count")
        return f"not emulated: {'; '.join(lacking)}"

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
    values: dict[str, Any] = {key: str(table[key]) for key in _TEXTS if key in table}
    for key, value in table.items():
        if key in _SIZES:
            values[_SIZES[key]] = parse_size(str(value))
            if values[_SIZES[key]] is None:
                remedy = f'write {key} = "4GiB"'
                raise UsageError(f"{key} = {value!r} is not a size", remedy=remedy)
        elif key in _COUNTS:
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UsageError(f"{key} = {value!r} is not a count", remedy=f"write {key} = 4")
            values[key] = value
    storage = tuple(table.get("storage", ()))
    for preset in (*storage, *table.get("speeds", {})):
        storage_preset(preset)
    if "swap" in table:
        parse_swap(table["swap"])
        values["swap"] = table["swap"]
    return Board(
        name=name,
        storage=storage,
        speeds={preset: storage_of(speeds) for preset, speeds in table.get("speeds", {}).items()},
        sources=sources_of(table, where),
        **values,
    )
