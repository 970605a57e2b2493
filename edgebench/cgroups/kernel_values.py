"""Settings of the whole machine, made for a trial and put back after it, even after a crash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from edgebench.cgroups.cleanup import KERNEL_VALUE, is_setting, read_setting
from edgebench.cgroups.leftovers import Ownership
from edgebench.errors import MachineError


@contextmanager
def kernel_values(wanted: Mapping[str, str], ownership: Ownership) -> Iterator[dict[str, str]]:
    """File → value, as the kernel has them meanwhile.

    Raises:
        MachineError: a file is none of those that may be set, the kernel refuses a value, or
            another harness measures with another one.
    """
    with ExitStack() as stack:
        for file, value in wanted.items():
            stack.enter_context(_set(Path(file), value, ownership))
        yield {file: read_setting(Path(file)) for file in wanted}


@contextmanager
def _set(file: Path, value: str, ownership: Ownership) -> Iterator[None]:
    if not is_setting(file):
        raise MachineError("edgebench sets no such file", where=str(file))
    try:
        _write_shared(file, value, ownership)
        yield
    finally:
        ownership.restore(KERNEL_VALUE, file)


def _write_shared(file: Path, value: str, ownership: Ownership) -> None:
    """Write it, unless another harness measures with another value of it."""
    try:
        with ownership.share(KERNEL_VALUE, file, partial(read_setting, file)) as is_shared:
            if is_shared and (now := read_setting(file)) != value:
                raise MachineError(
                    f"another edgebench measures with {now}, not {value}",
                    where=str(file),
                    remedy="wait until it has ended",
                )
            file.write_text(value)
    except OSError as error:
        raise MachineError(
            f"the kernel does not take {value}: {error.strerror}",
            where=str(file),
            remedy="leave --kernel out",
        ) from error
