"""A program that calls a Python function: ``python function_call.py SPEC``, run by path.

The harness pickled the function into a file of its private scratch folder; nothing else is
unpickled, and nothing that the function returns goes back, so a harness with more rights than the
function's user never reads an object of theirs.

It imports the standard library alone, so that its memory is the interpreter's and the function's.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time


def main(spec: str) -> None:
    """Call the function; what it raises is noted for the record, and ends the program."""
    given = json.loads(spec)
    try:
        with open(given["argument"], "rb") as file:  # noqa: PTH123
            # Where the caller finds its modules, the function finds them too.
            sys.path[:] = pickle.load(file)  # noqa: S301
            function = pickle.load(file)  # noqa: S301
        function()
    except Exception as error:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        note = {"event": "note", "t_ns": time.monotonic_ns(), "data": {"error": {"what": what}}}
        # In a search for the least memory it is a command like any other, without events.
        if descriptors := given.get("descriptors"):
            os.write(descriptors["events"], f"{json.dumps(note)}\n".encode())
        raise


if __name__ == "__main__":
    main(sys.argv[1])
