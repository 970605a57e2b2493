"""``python -m edgebench`` is the same program as ``edgebench``."""

from __future__ import annotations

import os
import sys

try:
    # ``-m`` puts the current folder first, where anybody may have left a ``json.py``.
    if sys.path[0] == os.getcwd():  # noqa: PTH109 - pathlib would be imported from there
        del sys.path[0]
except FileNotFoundError:
    # The current folder is gone, and Python did not add it.
    pass

from edgebench.cli import main

main()
