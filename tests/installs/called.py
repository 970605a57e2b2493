"""Calls many verbs in one interpreter, whose imports are made once: for an installation's Python.

Standard input has a list of calls, each a list of words; standard output gets a line of JSON for
each: its exit code and what it said on stderr.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile


def call(words: list[str]) -> dict[str, object]:
    """One call, with its output and errors in files."""
    from edgebench.cli import main

    kept = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        sys.argv = ["edgebench", *words]
        code: object = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
            os.close(kept[0])
            os.close(kept[1])
        err.seek(0)
        return {"code": code, "said": err.read().decode()}


def _main() -> None:
    for words in json.load(sys.stdin):
        sys.stdout.write(json.dumps(call(words)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _main()
