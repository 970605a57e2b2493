"""A TorchScript file before any trial: loaded, tried, copied; and its modules as a table."""

from __future__ import annotations

import json
from typing import Any

from edgebench.errors import WorkloadError
from edgebench.layers.disk import evict, read_through
from edgebench.layers.layer_table import LayerTableRow, table_with_sizes
from edgebench.safe_files import make_folder, write
from edgebench.workloads.engines.file_preparation import copy_file
from edgebench.workloads.engines.files import ENDS, FileRequest, whole_file
from edgebench.workloads.engines.torchscript.arguments import (
    call_arguments,
    script_arguments,
    script_example,
    value_words,
)
from edgebench.workloads.engines.torchscript.runtime import loaded_program, script_words


def prepare_torchscript(request: FileRequest) -> dict[str, Any]:
    """Copy the file to its folder, with its arguments; the table of its modules with weights.

    Raises:
        WorkloadError: PyTorch does not load it, or it does not take such an input.
    """
    import torch

    file = request.file
    program = loaded_program(file, str(file))
    arguments = script_arguments(program.forward.schema)
    values = call_arguments(arguments, request.wanted, 0, file.name)
    try:
        with torch.no_grad():
            program(**values)
    except Exception as error:
        needed = [one for one in arguments if not one.optional]
        raise WorkloadError(
            f"TorchScript can't execute it with {value_words(values)}: {script_words(error)}",
            where=str(file),
            remedy=f"try another --input, in the form of {script_example(needed)}; the file has no "
            "shapes",
        ) from error
    suffix = file.suffix.lower()
    ends = {"arguments": [one.to_json() for one in arguments], "suffix": suffix}
    make_folder(request.folder, parents=True)
    write(request.folder / ENDS, json.dumps(ends).encode())
    copied = whole_file(request.folder, suffix)
    copy_file(file, copied)
    read_through([copied])
    evict(file)
    table = table_with_sizes(_rows(program, file.stat().st_size))
    return {**table, "file_bytes": file.stat().st_size}


def _rows(program: Any, size: int) -> list[LayerTableRow]:
    """A row for each module with weights of its own; of a frozen program one, of its file."""
    rows: list[LayerTableRow] = []
    for name, module in program.named_modules():
        own = [one.nbytes for one in module.parameters(recurse=False)]
        buffers = sum(one.nbytes for one in module.buffers(recurse=False))
        if own or buffers:
            rows.append(_row(len(rows), name, module.original_name, sum(own), buffers))
    return rows or [_row(0, "", program.original_name, size, 0)]


def _row(order: int, name: str, kind: str, weights: int, buffers: int) -> LayerTableRow:
    return LayerTableRow(
        order=order,
        name=name or "(network)",
        type=kind,
        part=f"{order} {name}",
        parameter_bytes=weights,
        buffer_bytes=buffers,
        output_bytes=0,
        flops=0,
        file_bytes=weights + buffers,
    )
