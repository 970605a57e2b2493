"""The scenario of ``edgebench layers``: one network, unlimited and at a few limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgebench.errors import UsageError

if TYPE_CHECKING:
    from edgebench.scenario.scenario import Scenario

#: Key of the scenario → what a person typed for it.
_TYPED = {
    "workload.network": "NETWORK",
    "workload.schedule": "--schedule",
    "workload.loader": "--loader",
    "workload.batch": "--batch",
    "workload.image": "--image",
    "workload.rounds": "--rounds",
    "workload.threads": "--threads",
    "repeats": "--repeats",
    "limits.memory": "--memory",
    "limits.swap": "--swap",
}


@dataclass(frozen=True)
class Asked:
    """What to measure. Limits and swap as a person writes them; None leaves the usual."""

    network: str
    memory: Sequence[str] = ()
    swap: str = "none"
    schedule: str = "bulk"
    loader: str = "copy"
    batch: int = 1
    image: int | None = None
    threads: int | None = None
    rounds: int = 1
    repeats: int = 3


def layer_scenario(asked: Asked) -> Scenario:
    """The scenario that measures it; the unlimited point is always among its points.

    Raises:
        UsageError: something impossible, named by its flag.
    """
    from pydantic import ValidationError

    from edgebench.scenario.faults import faults_of
    from edgebench.scenario.scenario import Scenario, scenario_of

    tables = _tables(asked)
    try:
        return scenario_of(tables)
    except ValidationError as error:
        faults = faults_of(error, Scenario, tables, "")
        said = [f"{_typed(fault.key)}: {fault.says}" for fault in faults]
        raise UsageError("\n".join(said), remedy="edgebench layers --help") from error


def _tables(asked: Asked) -> Mapping[str, Any]:
    known = {"image": asked.image, "threads": asked.threads}
    return {
        "schema": 1,
        "name": f"layers-{asked.network.lower().replace('_', '-')}"[:64],
        "repeats": asked.repeats,
        "workload": {
            "kind": "inference",
            "network": asked.network,
            "schedule": asked.schedule,
            "loader": asked.loader,
            "batch": asked.batch,
            "rounds": asked.rounds,
            **{key: value for key, value in known.items() if value is not None},
        },
        "limits": {"memory": ["max", *(m for m in asked.memory if m != "max")], "swap": asked.swap},
    }


def _typed(key: str) -> str:
    """The flag behind a key; of a list's item, the list's flag."""
    return _TYPED.get(key.partition("[")[0], key)
