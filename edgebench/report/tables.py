"""The tables of a report beside those of its answers: what did not finish, and the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgebench.analysis.compare import NAMES, value_text
from edgebench.answers.table import Table
from edgebench.results.facts import WorkloadFacts
from edgebench.units import format_limit, format_size


def unfinished_table(workloads: Sequence[WorkloadFacts]) -> Table:
    """Return the reasons for which trials did not finish, each once a point."""
    rows = [
        [one.name, format_limit(point.limits.label, point.limit_bytes), reason]
        for one in workloads
        for point in one.points
        for reason in point.reasons
    ]
    titles = ("workload", "limit", "reason")
    return Table(titles, rows, titles, "Trials that did not finish")


def environment_table(environment: Mapping[str, Any]) -> Table:
    """Return the machine when the sweep began; what could not be read stands in one row."""
    told = {**NAMES, "captured_utc": "captured"}
    known = {name: environment[key] for key, name in told.items() if key in environment}
    rows = [[name, value_text(value)] for name, value in known.items() if value is not None]
    if isinstance(ram := environment.get("ram_bytes"), int):
        rows.append(["memory", format_size(ram)])
    swaps = environment.get("swap")
    for swap in swaps if isinstance(swaps, list) else []:
        size = swap.get("size_bytes") if isinstance(swap, dict) else None
        if isinstance(size, int):
            rows.append(["swap", f"{swap.get('kind', 'unknown')}, {format_size(size)}"])
    if isinstance(cgroup := environment.get("cgroup"), dict) and cgroup.get("version"):
        rows.append(["cgroup", f"v{cgroup['version']}"])
    if isinstance(git := environment.get("git"), dict) and git.get("commit"):
        changed = ", with changes" if git.get("changed") else ""
        rows.append(["commit", f"{str(git['commit'])[:10]}{changed}"])
    libraries = environment.get("libraries")
    if isinstance(libraries, dict):
        versions = [f"{name} {version}" for name, version in libraries.items() if version]
        rows += [["libraries", ", ".join(versions)]] if versions else []
    unknown = ", ".join(name for name, value in known.items() if value is None)
    rows += [["not known", unknown]] if unknown else []
    return Table(("", ""), rows, ("",), "Environment")
