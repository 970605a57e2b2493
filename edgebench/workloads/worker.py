"""``python -m edgebench.workloads.worker SPEC``: what runs inside the limit.

Its one argument is a :class:`~edgebench.workloads.events.WorkerSpec` as JSON. It exits 1 after
an error of its own, which it has worded as a note.
"""

from __future__ import annotations

import json
import os
import sys

from edgebench.errors import EdgebenchError
from edgebench.workloads.events import WorkerSpec
from edgebench.workloads.inference import import_runtime, run_inference
from edgebench.workloads.recorder import Recorder
from edgebench.workloads.view import view_of


def main(words: list[str]) -> int:
    """Run the workload of the spec; the exit code."""
    spec: WorkerSpec = json.loads(words[0])
    view = view_of(os.environ, spec["descriptors"])
    recorder = Recorder(spec["descriptors"], view)
    try:
        if spec["kind"] == "import":
            with recorder.span("import"):
                import_runtime(recorder)
        elif spec["kind"] == "scan":
            # Only here: what it needs is no part of any other workload's base.
            from edgebench.workloads.scan import run_scan

            run_scan(dict(spec["settings"]), recorder)
        elif spec["kind"] == "convolution":
            from edgebench.training.convolution import run_convolution

            run_convolution(dict(spec["settings"]), recorder)
        elif spec["kind"] == "training":
            from edgebench.training.loop import run_training

            run_training(dict(spec["settings"]), recorder)
        else:
            run_inference(dict(spec["settings"]), recorder)
    except EdgebenchError as error:
        recorder.note(error={"what": error.what, "where": error.where, "remedy": error.remedy})
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        if view:
            view.close()
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Taking the runtime down would swap all of it in, just to free it.
    os._exit(code)
