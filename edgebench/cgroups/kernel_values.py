"""Settings of the whole machine, made for a trial and put back after it, even after a crash."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from edgebench.cgroups.leftovers import Ownership
from edgebench.errors import MachineError

#: How state files name them.
KIND = "kernel-value"
#: No other file is ever written.
_FILES = re.compile(
    r"/proc/sys/vm/(page-cluster|swappiness)|/sys/kernel/mm/transparent_hugepage/enabled"
    r"|/sys/kernel/mm/lru_gen/enabled|/sys/block/[a-z0-9-]+/queue/read_ahead_kb"
)
_CHOSEN = re.compile(r"\[([^\]]+)\]")


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
        yield {file: _value(Path(file)) for file in wanted}


@contextmanager
def _set(file: Path, value: str, ownership: Ownership) -> Iterator[None]:
    if not _FILES.fullmatch(str(file)):
        raise MachineError("edgebench sets no such file", where=str(file))
    try:
        _write_shared(file, value, ownership)
        yield
    finally:
        ownership.restore(KIND, file)


def _write_shared(file: Path, value: str, ownership: Ownership) -> None:
    """Write it, unless another harness measures with another value of it."""
    try:
        with ownership.share(KIND, file, partial(_value, file)) as is_shared:
            if is_shared and (now := _value(file)) != value:
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


def put_back(file: Path, before: str) -> str | None:
    """Put a file's value back; None if the file has it, or is none that may be set."""
    if not _FILES.fullmatch(str(file)) or not file.exists() or _value(file) == before:
        return None
    file.write_text(before)
    return f"put {file} back to {before}"


def _value(file: Path) -> str:
    """Of several that the file offers the chosen one."""
    text = file.read_text().strip()
    chosen = _CHOSEN.search(text)
    return chosen[1] if chosen else text
