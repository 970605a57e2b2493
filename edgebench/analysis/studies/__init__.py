"""The studies, and the function that makes the tables of each from a sweep."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from edgebench.analysis.studies.convolutions import convolution_tables
from edgebench.analysis.studies.hyperparameters import search_tables
from edgebench.analysis.studies.phases import accelerator_tables, core_tables, operator_tables
from edgebench.analysis.studies.training import (
    framework_tables,
    partial_tables,
    training_memory_tables,
)

if TYPE_CHECKING:
    from edgebench.analysis.studies.tables import StudyTable
    from edgebench.results.results import Results

#: Study → its tables; the function raises ResultsError where the sweep has no data for it.
STUDIES: dict[str, Callable[[Results], list[StudyTable]]] = {
    "convolution": convolution_tables,
    "operators": operator_tables,
    "frameworks": framework_tables,
    "cores": core_tables,
    "partial training": partial_tables,
    "memory": training_memory_tables,
    "search": search_tables,
    "accelerator": accelerator_tables,
}
