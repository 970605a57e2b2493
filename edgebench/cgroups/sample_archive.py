"""Tables of samples as one ``.npz``, which numpy reads: written by the standard library alone."""

from __future__ import annotations

import zipfile
from array import array
from collections.abc import Mapping, Sequence
from typing import BinaryIO, TypeAlias

#: Columns, and rows of int64 one after the other.
SampleTable: TypeAlias = "tuple[Sequence[str], array[int]]"


def write_archive(target: BinaryIO, tables: Mapping[str, SampleTable]) -> None:
    """Write each table's columns and rows of int64 as a structured array of its name."""
    with zipfile.ZipFile(target, "w") as archive:
        for name, (columns, rows) in tables.items():
            header = _npy_header(columns, len(rows) // len(columns))
            # With no date: a board without a clock boots in 1970, which no zip file can hold.
            member = zipfile.ZipInfo(f"{name}.npy")
            archive.writestr(member, header + rows.tobytes(), zipfile.ZIP_DEFLATED, 1)


def _npy_header(columns: Sequence[str], rows: int) -> bytes:
    """The head of a structured array in numpy's format 1.0 (numpy.lib.format)."""
    fields = [(name, "<i8") for name in columns]
    text = repr({"descr": fields, "fortran_order": False, "shape": (rows,)})
    length = -(-(10 + len(text) + 1) // 64) * 64 - 10
    head = b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little")
    return head + text.encode().ljust(length - 1) + b"\n"
