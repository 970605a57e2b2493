"""The scan workload: passes over areas of memory and of files inside the limit.

It knows no network, and imports no runtime.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from edgebench.workloads.garbage_collection import collected_rounds
from edgebench.workloads.recorder import Recorder
from edgebench.workloads.scanned_area import ScannedArea


def run_scan(settings: dict[str, Any], recorder: Recorder) -> None:
    """Scan one area after another, and note what each pass took.

    Settings: ``gc``; ``areas``, each with the settings of a
    :class:`~edgebench.workloads.scanned_area.ScannedArea` and ``passes``, names of its ``PASSES``.

    Raises:
        WorkloadError: no such pass.
    """
    passes = []
    with collected_rounds(settings) as before_pass:
        for about in settings["areas"]:
            with closing(ScannedArea(about)) as area:
                for name in about["passes"]:
                    before_pass()
                    passes.append(area.make(name))
    recorder.note(passes=passes)
