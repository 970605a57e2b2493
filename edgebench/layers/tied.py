"""Tensors that several parts of a network use under names of their own: tied weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from edgebench.layers.cut import LayerPart
from edgebench.layers.table_row import LayerTableRow

#: A part, and a tensor's name in it.
Place = tuple[str, str]


def tied_places(
    parts: Sequence[LayerPart], tied: Sequence[Sequence[str]]
) -> dict[str, list[Place]]:
    """Each tensor that several places use: its name → these. ``tied``: groups of full names."""
    places = {full_name(part, key): (part.name, key) for part in parts for key in part.tensors()}
    found = {group[0]: [places[name] for name in group if name in places] for group in tied}
    return {name: used for name, used in found.items() if len(used) > 1}


def tensor_at(parts: Sequence[LayerPart], place: Place) -> torch.Tensor:
    """The tensor of a place."""
    name, key = place
    return next(part.tensors()[key] for part in parts if part.name == name)


def full_name(part: LayerPart, key: str) -> str:
    """A tensor's name in the whole network."""
    return f"{part.name}.{key}" if part.name else key


def counted_twice_bytes(parts: Sequence[LayerPart], tied: Sequence[Sequence[str]]) -> int:
    """Bytes of tied tensors beyond their first place: rows of parts count each of them."""
    places = tied_places(parts, tied).values()
    return sum((len(used) - 1) * tensor_at(parts, used[0]).nbytes for used in places)


def rows_with_tied(
    rows: Sequence[LayerTableRow], parts: Sequence[LayerPart], tied: Sequence[Sequence[str]]
) -> list[LayerTableRow]:
    """The rows with the tied tensors that each one's part uses."""
    sizes: dict[str, dict[str, int]] = {}
    for name, used in tied_places(parts, tied).items():
        for part, _ in used:
            sizes.setdefault(part, {})[name] = tensor_at(parts, used[0]).nbytes
    return [replace(row, tied_bytes=sizes.get(row.part, {})) for row in rows]
