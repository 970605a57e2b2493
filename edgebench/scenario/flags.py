"""The keys of a scenario that verbs take as flags, and Python's functions as arguments.

No pydantic is imported, so that ``--help`` is quick. Each is a key of a scenario's table.
"""

from __future__ import annotations

#: Of ``[workload]``: what sets how a network is run, and how a program is.
NETWORK_KEYS = ("schedule", "loader", "batch", "image", "prompt", "new_tokens", "input")
PROGRAM_KEYS = ("files", "reset", "stop_after", "throughput_pattern", "stdin")
#: Of ``[limits]``: where a trial runs.
PLACE_KEYS = ("swap", "storage", "board")
