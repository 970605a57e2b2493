"""A Keras file before any trial: read and checked, copied, and its layers as a table."""

from __future__ import annotations

from typing import Any

from edgebench.workloads.engines.engine import FileRequest
from edgebench.workloads.engines.file_inputs import concrete_shapes
from edgebench.workloads.engines.keras_archive import read_archive
from edgebench.workloads.engines.keras_table import keras_table
from edgebench.workloads.engines.whole_file_preparation import keep_whole


def prepare_keras(request: FileRequest) -> dict[str, Any]:
    """Copy the file to its folder, with the description of its ends; the table of its layers.

    Raises:
        WorkloadError: it is no whole Keras file, needs code beside it, or takes another input.
    """
    archive = read_archive(request.file)
    inputs = archive.inputs()
    concrete_shapes(inputs, request.wanted, request.file.name)
    table = keras_table(archive, request.file, request.wanted.batch)
    return {**table, **keep_whole(request, inputs, archive.outputs())}
