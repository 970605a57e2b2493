"""The program ``edgebench``; ``python -m edgebench`` is the same."""

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

import signal

# Importing typing would double the time in which Ctrl-C can't be handled yet.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn


def main() -> NoReturn:
    """Import the command line and run it; a signal during the import ends the program at once."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end_at_once)
    from edgebench import cli

    cli.main()


def _end_at_once(signum: int, frame: FrameType | None) -> NoReturn:
    """Nothing has been made yet; an exception in the middle of an import would be a traceback."""
    os._exit(128 + signum)


if __name__ == "__main__":
    main()
