"""A sweep's times in pytest-benchmark's own format, so that ``pytest-benchmark compare`` reads it.

The statistics are computed by pytest-benchmark itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from edgebench.analysis.studies.convolutions import KIND, pass_frame
from edgebench.analysis.studies.tables import plain_value
from edgebench.extras import need

if TYPE_CHECKING:
    import pandas as pd

    from edgebench.results.results import Results

_PARAMETERS = ("work", "kernel", "stack", "batch", "channels", "image", "limit_label")


def benchmark_json(results: Results) -> dict[str, Any]:
    """Every point of a convolution sweep as a benchmark; a pass is one of its rounds.

    Raises:
        MachineError: pytest-benchmark is not installed.
        ResultsError: no convolution finished in this sweep.
    """
    need("pytest_benchmark")
    from pytest_benchmark.stats import Stats

    passes = pass_frame(results)
    environment = results.environment
    points = passes.groupby("point", sort=True)
    made: Callable[[], Any] = Stats
    return {
        "machine_info": _machine(environment),
        "commit_info": _commit(environment),
        "benchmarks": [_benchmark(rows, made()) for _, rows in points],
        "datetime": str(results.trials["started_utc"].min().isoformat()),
        "version": version("pytest-benchmark"),
    }


def _benchmark(rows: pd.DataFrame, stats: Any) -> dict[str, Any]:
    for seconds in rows["seconds"]:
        stats.update(float(seconds))
    first = rows.iloc[0]
    parameters = {name: _plain(first[name]) for name in _PARAMETERS}
    words = "-".join(f"{name} {value}" for name, value in parameters.items() if name != "work")
    name = f"{parameters['work']}[{words}]"
    above = rows["peak_bytes"].max() - first["base_bytes"]
    return {
        "group": f"{KIND}, {parameters['work']}",
        "name": name,
        "fullname": f"{KIND}::{name}",
        "params": parameters,
        "param": words,
        "extra_info": {
            "seconds_per_image": float(stats.median / first["batch"]),
            "bytes_per_image": _plain(above / first["batch"]),
        },
        "options": {
            "disable_gc": False,
            "timer": "monotonic",
            "min_rounds": len(rows),
            "max_time": None,
            "min_time": None,
            "warmup": bool(first["warm"]),
        },
        "stats": {**stats.as_dict(), "iterations": 1, "data": list(map(float, rows["seconds"]))},
    }


def _plain(value: Any) -> Any:
    """As JSON knows it; a whole number without a decimal point."""
    plain = plain_value(value)
    return int(plain) if isinstance(plain, float) and plain.is_integer() else plain


def _machine(environment: Mapping[str, Any]) -> dict[str, Any]:
    """The machine in the sweep's environment, under the names of the format."""
    return {
        "node": environment.get("hostname", ""),
        "machine": environment.get("architecture", ""),
        "system": "Linux",
        "release": environment.get("kernel", ""),
        "python_implementation": "CPython",
        "python_version": environment.get("python", ""),
        "cpu": {"brand_raw": environment.get("cpu_model"), "count": environment.get("cpu_cores")},
    }


def _commit(environment: Mapping[str, Any]) -> dict[str, Any]:
    git = environment.get("git") or {}
    return {
        "id": git.get("commit"),
        "dirty": git.get("changed"),
        "time": None,
        "author_time": None,
        "project": "edgebench",
        "branch": None,
    }
