"""The kinds of study, and what makes the tables of each from a sweep."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from edgebench.studies.convolution_tables import convolution_tables
from edgebench.studies.cores import core_tables
from edgebench.studies.memory import memory_tables
from edgebench.studies.operators import operator_tables
from edgebench.studies.partial import partial_tables
from edgebench.studies.search_tables import search_tables

if TYPE_CHECKING:
    from edgebench.results.results import Results
    from edgebench.studies.tables import StudyTable

#: Kind → its tables; it raises ResultsError where the sweep has nothing for it.
KINDS: dict[str, Callable[[Results], list[StudyTable]]] = {
    "convolution": convolution_tables,
    "operators": operator_tables,
    "cores": core_tables,
    "partial training": partial_tables,
    "memory": memory_tables,
    "search": search_tables,
}
