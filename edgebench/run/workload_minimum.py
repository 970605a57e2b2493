"""What ``edgebench.minimum`` does: the search for the least memory, called from Python."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from edgebench.errors import UsageError
from edgebench.run.function import function_settings, name_of
from edgebench.run.minimum import find_minimum
from edgebench.run.minimum_answer import Minimum
from edgebench.run.minimum_requests import MinimumRequest, ProgramRequest
from edgebench.run.scratch import scratch_folder
from edgebench.run.sweep import SweepOptions
from edgebench.run.trial_loop import Progress

_REMEDY = 'edgebench.minimum("python3 train.py"), or edgebench.minimum(network="resnet18")'
#: What only programs and functions have.
_OF_PROGRAMS = (
    *("throughput", "throughput_pattern", "throughput_json", "unit", "files"),
    *("stop_after", "reset", "budget"),
)
_OF_NETWORKS = ("prompt", "new_tokens")


def workload_minimum(
    workload: str | Sequence[str] | Callable[[], object] | None,
    network: str | None,
    settings: dict[str, Any],
    where: SweepOptions,
    progress: Progress,
) -> Minimum:
    """Search as the verb does. ``settings`` are the request's, None for what was not given.

    Raises:
        UsageError: neither or both of a workload and a network, or a setting that does not fit.
        EdgebenchError: as :func:`edgebench.run.minimum.find_minimum` does.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    if (workload is None) == (network is None):
        raise UsageError("name a command, a function or a network", remedy=_REMEDY)
    if network is not None:
        if other := sorted(set(_OF_PROGRAMS) & given.keys()):
            raise UsageError(f"{other[0]} is for programs only", remedy=f"leave out {other[0]}=")
        return find_minimum(MinimumRequest(network, **given), where, progress)
    if other := sorted(set(_OF_NETWORKS) & given.keys()):
        raise UsageError(f"{other[0]} is for networks only", remedy=f"leave out {other[0]}=")
    if "files" in given:
        given["files"] = tuple(map(str, given["files"]))
    if "reset" in given:
        given["reset"] = tuple(_words(given["reset"]))
    if not callable(workload):
        command = tuple(_words(workload or ""))
        return find_minimum(ProgramRequest(command, **given), where, progress)
    with scratch_folder() as folder:
        stored = function_settings(workload, folder)
        spec = json.dumps({"argument": stored["argument"]})
        request = ProgramRequest((sys.executable, stored["script"], spec), **given)
        return replace(find_minimum(request, where, progress), name=name_of(workload))


def _words(command: str | Sequence[str]) -> list[str]:
    words = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
    if not words:
        raise UsageError("the command is empty", remedy=_REMEDY)
    return words
