"""Settings of the whole machine, made for a trial and put back after it, even after a crash."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
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
        MachineError: a file is none of those that may be set, or the kernel refuses a value.
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
        claimed = f"{file}={_value(file)}"
        ownership.claim(KIND, claimed)
        file.write_text(value)
    except OSError as error:
        raise MachineError(
            f"the kernel does not take {value}: {error.strerror}",
            where=str(file),
            remedy="leave --kernel out",
        ) from error
    try:
        yield
    finally:
        put_back(Path(claimed))
        ownership.release(KIND, claimed)


def put_back(claimed: Path) -> str | None:
    """Put a file's value back, of a claim ``FILE=VALUE``; None if it has it, or is no such file."""
    name, _, before = str(claimed).rpartition("=")
    file = Path(name)
    if not _FILES.fullmatch(name) or not file.exists() or _value(file) == before:
        return None
    file.write_text(before)
    return f"put {file} back to {before}"


def _value(file: Path) -> str:
    """Of several that the file offers the chosen one."""
    text = file.read_text().strip()
    chosen = _CHOSEN.search(text)
    return chosen[1] if chosen else text
