"""The file that valgrind's massif writes: snapshots, some with a tree of who holds the heap.

The format is ``key=value`` lines and indented tree lines (valgrind, ``massif/ms_main.c``)::

    desc: --time-unit=ms
    cmd: ./program
    time_unit: ms
    #-----------
    snapshot=3
    #-----------
    time=120
    mem_heap_B=1000
    mem_heap_extra_B=24
    mem_stacks_B=0
    heap_tree=peak
    n1: 1000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
     n0: 1000 0x109156: main (program.c:7)

A node's number is how many children follow it, so a tree cut short shows. The parser on PyPI
(msparser) saw its last release in 2012, and ms_print drops what it deems small, since it prints
for people. So the file is read here, and a test holds the figures against ms_print's table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgebench.errors import ResultsError
from edgebench.measures.heap.profile import Stack

_NODE = re.compile(r" *n(\d{1,9}): (\d{1,19}) (.+)")
_CODE = re.compile(r"0x[0-9A-Fa-f]+: (.+)")
_UNIT = re.compile(r"^time_unit: (\w+)$", re.MULTILINE)
_BORDER = re.compile(r"^#-----------\nsnapshot=\d+\n#-----------\n", re.MULTILINE)
_KEYS = ("time", "mem_heap_B", "mem_heap_extra_B", "mem_stacks_B", "heap_tree")


@dataclass(frozen=True)
class Snapshot:
    """The heap at ``time`` (in the file's unit). ``extra_bytes`` are the allocator's own."""

    time: int
    heap_bytes: int
    extra_bytes: int
    is_peak: bool
    stacks: tuple[Stack, ...]


@dataclass(frozen=True)
class MassifFile:
    """What a massif file holds; ``cut`` if its last snapshot was not whole and is left out."""

    time_unit: str
    snapshots: tuple[Snapshot, ...]
    cut: bool


def parse_massif(text: str, where: str) -> MassifFile:
    """The snapshots in the text; ``where`` names its file in messages.

    Raises:
        ResultsError: it is no massif file, or a snapshot before the last one is broken.
    """
    head, *parts = _BORDER.split(text)
    unit = _UNIT.search(head)
    if not head.startswith("desc: ") or not unit:
        raise ResultsError("not a file of valgrind's massif, or cut short", where=where)
    snapshots: list[Snapshot] = []
    for number, part in enumerate(parts):
        try:
            snapshots.append(_snapshot(part))
        except ValueError as error:
            if number < len(parts) - 1:
                what = f"massif's snapshot {number} is broken: {error}"
                raise ResultsError(what, where=where) from None
    return MassifFile(unit[1], tuple(snapshots), cut=len(snapshots) < len(parts) or not parts)


def _snapshot(part: str) -> Snapshot:
    if not part.endswith("\n"):
        raise ValueError("its last line has no end")
    lines = part[:-1].split("\n")
    fields = dict(line.partition("=")[::2] for line in lines[: len(_KEYS)])
    if tuple(fields) != _KEYS or fields["heap_tree"] not in ("empty", "detailed", "peak"):
        raise ValueError("its figures are not whole")
    time, heap, extra, _ = (_figure(fields[key]) for key in _KEYS[:-1])
    tree = lines[len(_KEYS) :]
    if bool(tree) == (fields["heap_tree"] == "empty"):
        raise ValueError("its tree is missing, or there is one too many")
    return Snapshot(time, heap, extra, fields["heap_tree"] == "peak", tuple(_leaves(tree)))


def _figure(text: str) -> int:
    if not re.fullmatch(r"\d{1,19}", text):
        raise ValueError(f"{text[:20]!r} is no figure")
    return int(text)


def _leaves(lines: Sequence[str]) -> Iterator[Stack]:
    """One stack for each leaf: the path of calls down to it, the allocating call first."""
    path: list[tuple[str, int]] = []  # names from the root, and children still to come
    for number, line in enumerate(lines):
        children, size, name = _node(line)
        if number and not path:
            raise ValueError("its tree has two roots")
        if children:
            path.append((name, children))
            continue
        yield Stack(size, (*(frame for frame, _ in path[1:]), name))
        while path:
            parent, left = path.pop()
            if left > 1:
                path.append((parent, left - 1))
                break
    if path:
        raise ValueError("its tree is cut short")


def _node(line: str) -> tuple[int, int, str]:
    match = _NODE.fullmatch(line)
    if not match:
        raise ValueError("a line of its tree is no node")
    code = _CODE.fullmatch(match[3])
    name = code[1] if code else match[3].partition(",")[0]
    return int(match[1]), int(match[2]), name
