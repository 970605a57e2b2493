"""edgebench: run a neural network under real memory limits and see what it costs.

The words of this project. Each means one thing, in code, messages and docs:

scenario
    A TOML file that says what to run.
sweep
    Everything that one scenario runs on one device.
point
    One combination of workload settings and limits.
trial
    One execution of one point, in one fresh process and one fresh cgroup.
round
    One full pass inside a trial: every layer loaded and executed; in training
    one step, from its data to the update.
block
    One repeat of every point, in an order drawn at random from the seed.
limit
    The most memory the kernel lets the trial hold in RAM; ``max`` is unlimited.
phase
    ``import``, ``init`` (build the graph, make the input), ``load`` (disk to
    resident tensors), ``first`` (first execution after a load), ``execute``
    (later, warm executions). In training ``data`` (make the batch), ``forward``,
    ``backward``, ``step`` (update the parameters), and after it ``test``.
layer
    One *call* of a leaf module; a module used twice is two layers.
base
    The footprint of the runtime before any model exists.
peak
    A high-water mark. It always says whose: kernel's, sampled, process's, heap's.
demand
    What a trial needs when nothing limits it. A peak equal to the limit is
    *saturated* and is never shown as demand.
slowdown
    Time at a limit / time unlimited; same phase, same device, same settings.
viable
    The trial finishes at that limit. A limit at which it is killed is a
    result, not an error.
outcome
    ``ok``, ``oom-killed``, ``timeout``, ``failed`` (the workload's own error),
    ``harness-error`` or ``interrupted``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgebench.results.results import Results

__all__ = ["__version__", "load"]
__version__ = "0.1.0"


def load(path: str | Path) -> Results:
    """Read a results folder (or a folder of them) as pandas frames.

    See :class:`edgebench.results.results.Results` for the frames and their columns.

    Raises:
        edgebench.errors.ResultsError: nothing readable there, or made by a newer version.
    """
    from edgebench.results.results import load as load_results

    return load_results(path)
