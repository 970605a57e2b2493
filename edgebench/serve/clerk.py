"""``python -m edgebench.serve.clerk``: answers one question that needs large libraries, and ends.

So the server itself stays small. The question is JSON on stdin, ``{"ask": …}``; the answer is
JSON on stdout: ``{"answer": …}``, or ``{"error": {"what", "where", "remedy"}}``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from edgebench.errors import EdgebenchError

#: What stands behind everything else that this machine does.
_NICE = 10


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """The answer to one question: ``form``, ``check`` or ``what-if``.

    Raises:
        EdgebenchError: it can't be answered.
    """
    if question["ask"] in ("form", "check"):
        return _about_form(question)
    from edgebench.serve.whatif import what_if

    return what_if(Path(question["sweep"]))


def _about_form(question: dict[str, Any]) -> dict[str, Any]:
    from edgebench.serve.form import check, tables
    from edgebench.serve.offered import Offered

    offered = Offered(Path(question["files"]) if question["files"] else None)
    if question["ask"] == "form":
        return tables(offered)
    return check(question["sent"], offered)


def main() -> None:
    """Read a question, print its answer."""
    os.nice(_NICE)
    try:
        told: dict[str, Any] = {"answer": answer(json.load(sys.stdin))}
    except EdgebenchError as error:
        told = {"error": {"what": error.what, "where": error.where, "remedy": error.remedy}}
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
