"""``python -m edgebench`` is the same program as ``edgebench``."""

from __future__ import annotations

from edgebench.cli import main

main()
