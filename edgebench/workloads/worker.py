"""The program that runs inside the limit.

Its one argument is a :class:`~edgebench.workloads.events.WorkerSpec` as JSON. It exits 1 after
an error of its own, which it has worded as a note.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from edgebench.errors import AcceleratorMemoryError, EdgebenchError

if TYPE_CHECKING:
    from edgebench.workloads.events import WorkerSpec

#: Kind of workload → the function that executes it. Its module alone is imported, so that what
#: another kind needs is no part of its base.
WORKLOADS = {
    "convolution": "edgebench.workloads.microbenchmarks:run_convolution",
    "hot-base": "edgebench.workloads.microbenchmarks:run_hot_base",
    "import": "edgebench.workloads.engines.engine:run_import",
    "inference": "edgebench.workloads.engines.engine:run_inference",
    "scan": "edgebench.workloads.microbenchmarks:run_scan",
    "training": "edgebench.workloads.training.loop:run_training",
}


def main(words: list[str]) -> int:
    """Run the workload of the spec; the exit code."""
    # The harness imports this module for its table alone.
    from edgebench.measures.view import view_of
    from edgebench.workloads.recorder import Recorder, record_collections, refuse_huge_pages

    spec: WorkerSpec = json.loads(words[0])
    view = view_of(os.environ, spec["descriptors"])
    recorder = Recorder(spec["descriptors"], view)
    end_watch = record_collections(recorder)
    try:
        if spec["settings"].get("huge_pages") is False:
            refuse_huge_pages(recorder)
        module, _, name = WORKLOADS[spec["kind"]].partition(":")
        with recorder.reported_accelerator():
            getattr(import_module(module), name)(dict(spec["settings"]), recorder)
    except EdgebenchError as error:
        about = {"what": error.what, "where": error.where, "remedy": error.remedy}
        if isinstance(error, AcceleratorMemoryError):
            about["outcome"] = error.outcome
        recorder.note(error=about)
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        end_watch()
        recorder.flush()
        if view:
            view.close()
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Taking the runtime down would swap all of it in, just to free it.
    os._exit(code)
