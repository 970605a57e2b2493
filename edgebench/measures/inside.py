"""What the harness and the worker agree on for strategies that look from inside the worker."""

from __future__ import annotations

import re

#: Variables of the worker's environment: which view it has, and the folder that may write to.
VIEW_VARIABLE, FOLDER_VARIABLE = "EDGEBENCH_VIEW", "EDGEBENCH_VIEW_FOLDER"
PROCESS, TORCH, CATEGORIES = "process", "torch", "categories"
OPERATORS, CORES = "operators", "cores"
#: In a look at cores: what begins the CPU time on each, before the core's number.
CORE_NS = "core_ns_"
#: There too: when it was.
LOOKED_NS = "looked_ns"
#: In a look at categories: what begins the figures of the highest usage; when the look was.
HIGHEST, MARKED = "highest_", "marked_ns"
#: What its file has: allocations, boundaries, what is held where, what lies past the allocator.
PROFILED = ("allocations", "boundaries", "held", "itself")
TCMALLOC, MEMRAY = "tcmalloc", "memray"
#: In that folder: torch's allocations.
ALLOCATIONS = "allocations.json"
#: There too: what torch's operators took.
OPERATORS_FILE = "operators.json"
#: There too: tcmalloc's dumps, numbered; of a process that another started, with its id.
DUMP = re.compile(r"heap(?:_(\d+))?\.(\d{4,9})\.heap")
#: There too: memray's record.
RECORD = "memray.bin"
#: In memray's record, a mapping of this size and as many pages as a boundary's number marks the
#: boundary. It is address space alone: no page of it is ever touched.
MARK_BYTES = 32 << 30
