"""What each framework can't train, told when the scenario is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgebench.workloads.training.names import IN_TENSORFLOW, MLP, NUMPY, SCRATCH, TENSORFLOW
from edgebench.workloads.training.partial import WHOLE

if TYPE_CHECKING:
    from edgebench.scenario.training_keys import TrainingWorkload

#: Framework → the networks that it trains; PyTorch trains all.
_NETWORKS = {NUMPY: (MLP,), TENSORFLOW: IN_TENSORFLOW}


def check_frameworks(workload: TrainingWorkload) -> None:
    """Check that each framework of a training can do all that its keys ask for.

    Raises:
        ValueError: one can't; says which key to leave out.
    """
    for framework, networks in _NETWORKS.items():
        if framework in workload.framework:
            _check_networks(workload, framework, networks)
            _check_keys(workload, framework)
    if True not in workload.compiled:
        return
    if TENSORFLOW not in workload.framework:
        raise ValueError(f"only framework {TENSORFLOW} has compiled steps; leave compiled out")
    if workload.accumulation != (1,):
        raise ValueError(
            "a compiled step trains on its batch as a whole; leave accumulation or compiled out"
        )


def _check_networks(workload: TrainingWorkload, framework: str, networks: tuple[str, ...]) -> None:
    if other := next((name for name in workload.network if name not in networks), None):
        raise ValueError(
            f"framework {framework} trains only {' and '.join(networks)}, not {other}; "
            "leave one out"
        )


def _check_keys(workload: TrainingWorkload, framework: str) -> None:
    lacks = {
        "trained": workload.trained != (WHOLE,),
        "start": workload.start != (SCRATCH,),
        "precision": workload.precision != ("float32",),
        "checkpointing": True in workload.checkpointing,
        "per_layer": workload.per_layer,
        "interop_threads": workload.interop_threads is not None,
    }
    if workload.loss is not None:
        raise ValueError(f"framework {framework} has a loss of its own; leave loss out")
    if given := " and ".join(key for key, is_so in lacks.items() if is_so):
        raise ValueError(
            f"framework {framework} trains the whole network from scratch, in float32, without "
            f"checkpointing and per_layer; leave {given} out"
        )
