"""Keys of a scenario that choose an accelerator and limit its memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

from edgebench.errors import UsageError
from edgebench.layers.names import ACCELERATORS, ADMISSION, NO_ACCELERATOR, STREAM
from edgebench.scenario.keys import Axis, one_of
from edgebench.units import MIB, parse_share, parse_size
from edgebench.workloads.engines.registry import TORCH
from edgebench.workloads.training.names import PYTORCH
from edgebench.workloads.training.partial import FILTERS, parse_part

if TYPE_CHECKING:
    from edgebench.scenario.training_keys import TrainingWorkload
    from edgebench.scenario.workload_keys import InferenceWorkload

#: CUDA's allocator takes pieces of 2 MiB: with less nothing at all can be held.
_LEAST_BYTES = 2 * MIB


def _accelerator_limit(value: object) -> int | None:
    """Bytes; None for ``max``.

    Raises:
        ValueError: it is no size.
    """
    if not isinstance(value, (int, str)) or isinstance(value, bool):
        raise ValueError(f'{value!r} is no size; write "4G", or "max"')
    text = str(value).strip()
    try:
        if parse_share(text) is not None:
            raise ValueError(
                f"{text!r}: shares are of the host's demand, and an accelerator's is another one; "
                'write a size, as "4G"'
            )
        size = parse_size(text)
    except UsageError as error:
        raise ValueError(f"{error.what}; {error.remedy}") from error
    if size is not None and size < _LEAST_BYTES:
        raise ValueError(f'{text!r} is {size} bytes, less than CUDA takes at once; write "64M"')
    return size


#: Where torch computes; None: on the processor.
AcceleratorAxis = Axis[Annotated[str, one_of("accelerator", ACCELERATORS)]]
#: The most that torch's allocator may take of an accelerator's memory; None for ``max``.
AcceleratorLimit = Annotated[int | None, BeforeValidator(_accelerator_limit)]


def asks_for_accelerator(accelerator: Sequence[str] | None) -> bool:
    """Whether an axis has one."""
    return any(name != NO_ACCELERATOR for name in accelerator or ())


def accelerator_settings(accelerator: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    """Each value's settings; without an accelerator they are as before there was any."""
    for name in accelerator or (NO_ACCELERATOR,):
        yield {} if name == NO_ACCELERATOR else {"accelerator": name}


def check_inference(workload: InferenceWorkload, engines: Sequence[Any]) -> None:
    """Check that networks can be executed on the accelerators of the table.

    Raises:
        ValueError: another engine, or a schedule that counts on the host's memory.
    """
    if not asks_for_accelerator(workload.accelerator):
        return
    if other := next((engine.title for engine in engines if engine.name != TORCH), None):
        raise ValueError(
            f"only PyTorch runs on an accelerator here, and {other} is used too; leave "
            "accelerator or the other network out"
        )
    if workload.new_tokens is not None:
        raise ValueError("text is generated on the processor alone; leave accelerator out")
    for name in (STREAM, ADMISSION):
        if name in (workload.schedule or ()):
            raise ValueError(
                f"the schedule {name!r} goes by the host's memory, where no weights stay on an "
                "accelerator; leave it or accelerator out"
            )


def check_training(workload: TrainingWorkload) -> None:
    """The same of trainings.

    Raises:
        ValueError: another framework, or a part of the network that is trained there alone.
    """
    if not asks_for_accelerator(workload.accelerator):
        return
    if other := next((name for name in workload.framework if name != PYTORCH), None):
        raise ValueError(
            f"only framework {PYTORCH} trains on an accelerator here, not {other}; leave one out"
        )
    if any(parse_part(label).kind == FILTERS for label in workload.trained):
        raise ValueError(
            "single filters are trained on the processor alone; leave accelerator out, or train "
            "layers"
        )
