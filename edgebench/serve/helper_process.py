"""A process that answers one request needing large libraries, and ends.

The request is JSON on stdin; the reply is JSON on stdout, ``{"answer": …}`` or
``{"error": {"what", "where", "remedy"}}``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from edgebench.errors import EdgebenchError
from edgebench.extras import missing_library_error

#: Everything else on the machine has a higher priority.
_NICE = 10


def answer_request(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to one request, in the process itself.

    Raises:
        EdgebenchError: it can't be answered.
    """
    if request["about"] == "answer":
        from edgebench.serve.sweep_answer import sweep_answer

        return sweep_answer(Path(request["sweep"]))
    if request["about"] == "predictions":
        from edgebench.serve.limit_predictions import predict_limits

        return predict_limits(Path(request["sweep"]))
    if request["about"] == "boards":
        from edgebench.serve.limit_predictions import predict_boards

        return predict_boards(Path(request["sweep"]), request.get("reserve"))
    from edgebench.serve.form import FormFiles, check_form, form_tables

    files = FormFiles(Path(request["files"]) if request["files"] else None)
    if request["about"] == "form":
        return form_tables(files)
    return check_form(request["sent"], files)


def reply_to(request: dict[str, Any]) -> bytes:
    """Return the reply to one request, as JSON: its answer, or why there is none."""
    try:
        reply = {"answer": answer_request(request)}
    except (EdgebenchError, ModuleNotFoundError) as error:
        known = error if isinstance(error, EdgebenchError) else missing_library_error(error)
        if known is None:
            raise
        reply = {"error": {"what": known.what, "where": known.where, "remedy": known.remedy}}
    return json.dumps(reply).encode()


def main() -> None:
    """Read a request from stdin and print the reply."""
    os.nice(_NICE)
    sys.stdout.buffer.write(reply_to(json.load(sys.stdin)))


if __name__ == "__main__":
    main()
