"""What the harness and the worker agree on for strategies that look from inside the worker."""

from __future__ import annotations

#: Variables of the worker's environment: which view it has, and the folder that may write to.
VIEW_VARIABLE, FOLDER_VARIABLE = "EDGEBENCH_VIEW", "EDGEBENCH_VIEW_FOLDER"
PROCESS, TORCH = "process", "torch"
#: In that folder: torch's allocations.
ALLOCATIONS = "allocations.json"
