"""edgebench: run a neural network under real memory limits and see what it costs.

docs/glossary.md explains the words of this project.
"""

from __future__ import annotations

from edgebench.version import __version__

# Importing typing would double the time in which Ctrl-C can't be handled yet.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgebench.records import TrialRecord
    from edgebench.results.results import Results
    from edgebench.run.search.minimum import Minimum

__all__ = ["__version__", "load", "measure", "minimum"]


def load(path: str | Path) -> Results:
    """Read a results folder (or a folder of them) as pandas frames.

    See :class:`edgebench.results.results.Results` for the frames and their columns.

    Raises:
        edgebench.errors.ResultsError: nothing readable there, or made by a newer version.
    """
    from edgebench.results.results import load as load_results

    return load_results(path)


def measure(
    workload: str | Sequence[str],
    *,
    memory: str | int | None = None,
    swap: str | int = "none",
    storage: str = "as-is",
    cores: int | None = None,
    cpu_quota: float | None = None,
    timeout: str | float | None = None,
    interval: str | float | None = None,
    samples: str | Path | None = None,
    quiet: bool = False,
) -> TrialRecord:
    """Run a command once under the limits, as ``edgebench measure`` does.

    It runs in a fresh process in a fresh cgroup. A kill at the limit, a timeout and a failure are
    outcomes of the record, not exceptions.

    Args:
        workload: a command: ``"python3 train.py"``, split as a shell would, but no shell is
            involved; or a list of words.
        memory: ``"300M"``, a number of bytes, ``"75%"`` of its own demand (it then runs without a
            limit first), or None: no limit.
        swap: ``"none"``, a size as ``"2G"`` (a temporary swap file; needs root), ``"zram:1G"`` or
            ``"system"``.
        storage: ``"as-is"``, or the speed that swap and the files it reads are held to, as
            ``"read=100MB/s"`` (needs root).
        cores: how many CPU cores it may use.
        cpu_quota: CPU time it may use, in cores, as 1.5.
        timeout: kill it after this time, as ``"90s"``; a number is seconds.
        interval: the sampling interval; None: 1 ms while memory use changes, up to 5 ms while it
            doesn't.
        samples: store the samples in this ``.npz`` file.
        quiet: don't copy what it prints to stderr.

    Raises:
        edgebench.errors.UsageError: a value that is not possible.
        edgebench.errors.WorkloadError: a share of a demand that is unknown.
        edgebench.errors.MachineError: no cgroup can be made here (``CgroupError``), the storage
            can't be held, or the command, GNU time or the swap is missing.
    """
    from edgebench.run.trial.command import asked_limits, measure_workload

    asked = asked_limits(memory, swap, cores, cpu_quota, storage)
    return measure_workload(
        *(workload, asked), timeout=timeout, interval=interval, samples=samples, quiet=quiet
    )


def minimum(
    workload: str | Sequence[str] | None = None,
    *,
    network: str | None = None,
    slowdown: float | None = None,
    swap: str = "none",
    storage: str = "as-is",
    within: str | None = None,
    confirm: int = 3,
    killed: bool = False,
    timeout: str | None = None,
    budget: str | None = None,
    throughput: float | None = None,
    throughput_pattern: str | None = None,
    files: Sequence[str | Path] | None = None,
    schedule: str | None = None,
    loader: str | None = None,
    batch: int | None = None,
    image: int | None = None,
    input: str | dict[str, str] | None = None,  # noqa: A002 - as the scenario's key
    prompt: int | None = None,
    new_tokens: int | None = None,
    stop_after: str | None = None,
    reset: str | Sequence[str] | None = None,
    results: str | Path = "results",
) -> Minimum:
    """Find the least memory that a program or network needs, as ``edgebench minimum``.

    It is run several times, each in a fresh process at another limit; the trials are kept as a
    sweep. How far it is shows on stderr.

    Args:
        workload: a command, as for :func:`measure`; or None, with a network.
        network: the name of a network (needs the extra ``torch``).
        slowdown: find the least limit with at most this slowdown, as 1.5; None: 1.1.
        swap: as for :func:`measure`.
        storage: as for :func:`measure`.
        within: only try this limit, as ``"300M"``; the answer is then in ``fits``.
        confirm: how many more trials the given limit must finish.
        killed: also find where it is killed, even if swap can hold all that it needs.
        timeout: the time limit of a trial, as ``"2m"``.
        budget: stop searching after this time.
        throughput: find the least limit at which it prints this many lines a second.
        throughput_pattern: a rate that it prints instead, a regular expression with one group.
        files: weights that it reads, evicted from the page cache before each trial.
        schedule: in which order a network's layers are loaded and executed.
        loader: how its weights are loaded, ``"copy"`` or ``"mmap"``.
        batch: how many images are in one input.
        image: their width and height in pixels.
        input: what it takes, as ``"float32 1x3x224x224"``, or such a text for each input.
        prompt: how many tokens a language model is given.
        new_tokens: tokens of text that it generates.
        stop_after: stop a program that never ends after this time, as ``"20s"``.
        reset: a command to run before each trial.
        results: the folder that holds the results of all devices.

    Raises:
        edgebench.errors.UsageError: a value that is not possible.
        edgebench.errors.WorkloadError: it does not finish without a limit.
        edgebench.errors.MachineError: as for :func:`measure`.
    """
    given = dict(locals())
    from pathlib import Path

    from edgebench.cli.progress import shown_progress
    from edgebench.run.search.minimum import minimum_of
    from edgebench.run.sweep.sweep import SweepOptions

    for name in ("workload", "network", "results"):
        del given[name]
    with shown_progress() as progress:
        return minimum_of(workload, network, given, SweepOptions(Path(results)), progress)
