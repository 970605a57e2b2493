"""What TensorFlow can't train, checked when the scenario is read; PyTorch trains everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgebench.workloads.training.names import IN_TENSORFLOW, SCRATCH, TENSORFLOW
from edgebench.workloads.training.partial import WHOLE

if TYPE_CHECKING:
    from edgebench.scenario.training_keys import TrainingWorkload


def check_frameworks(workload: TrainingWorkload) -> None:
    """Check that each framework of a training can do all that its keys ask for.

    Raises:
        ValueError: one can't; says which key to leave out.
    """
    compiled = True in workload.compiled
    if TENSORFLOW in workload.framework:
        _check_networks(workload)
        _check_keys(workload)
    elif compiled:
        raise ValueError(f"only framework {TENSORFLOW} has compiled steps; leave compiled out")
    if compiled and workload.accumulation != (1,):
        raise ValueError(
            "a compiled step trains on its batch as a whole; leave accumulation or compiled out"
        )


def _check_networks(workload: TrainingWorkload) -> None:
    if other := next((name for name in workload.network if name not in IN_TENSORFLOW), None):
        raise ValueError(
            f"framework {TENSORFLOW} trains only {' and '.join(IN_TENSORFLOW)}, not {other}; "
            "leave one out"
        )


def _check_keys(workload: TrainingWorkload) -> None:
    lacks = {
        "trained": workload.trained != (WHOLE,),
        "start": workload.start != (SCRATCH,),
        "precision": workload.precision != ("float32",),
        "checkpointing": True in workload.checkpointing,
        "per_layer": workload.per_layer,
        "interop_threads": workload.interop_threads is not None,
    }
    if workload.loss is not None:
        raise ValueError(f"framework {TENSORFLOW} has a loss of its own; leave loss out")
    if given := " and ".join(key for key, is_so in lacks.items() if is_so):
        raise ValueError(
            f"framework {TENSORFLOW} trains the whole network from scratch, in float32, without "
            f"checkpointing and per_layer; leave {given} out"
        )
