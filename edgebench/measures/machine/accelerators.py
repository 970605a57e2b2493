"""Accelerators: whether CUDA can be used, found out without torch, and their memory.

No cgroup counts that memory: of a card it is memory of its own, of a board with shared memory it is
RAM that the driver took. So the driver is asked for each process's, and beside it stands what the
whole machine tells.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from edgebench.extras import install
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError

NVMAP = "sys/kernel/debug/nvmap/iovmm/clients"
_MEMINFO = "proc/meminfo"
_NVMAP_TOTAL = re.compile(r"^total\s+(\d+)K", re.MULTILINE)
#: ``user  python3  1234  567K``: a client's name may hold spaces, the last two words never.
_NVMAP_CLIENT = re.compile(r"^.*\s(\d+)\s+(\d+)K\s*$", re.MULTILINE)
_NVML_MODULE = "pynvml"


class NvmlMemory:
    """Each process's memory by NVIDIA's management library, through ``nvidia-ml-py``.

    Raises:
        UnreadableError: the package, the driver or a GPU is missing.
    """

    source = "NVML"

    def __init__(self, library: ModuleType | None = None) -> None:
        if library is None:
            try:
                library = import_module(_NVML_MODULE)
            except ModuleNotFoundError:
                remedy = install(_NVML_MODULE)
                raise UnreadableError(f"nvidia-ml-py is not installed: {remedy}") from None
        self._nvml: Any = library
        try:
            self._nvml.nvmlInit()
            count = self._nvml.nvmlDeviceGetCount()
            self._devices = [self._nvml.nvmlDeviceGetHandleByIndex(n) for n in range(count)]
        except self._nvml.NVMLError as error:
            raise UnreadableError(f"NVML: {error}") from None

    def read(self) -> dict[int, int]:
        """Map process id → bytes of all accelerators; none where the driver tells no memory.

        Raises:
            UnreadableError: it does not tell; says why.
        """
        sizes: dict[int, int] = {}
        try:
            for device in self._devices:
                for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(device):
                    if process.usedGpuMemory is not None:
                        size = sizes.get(process.pid, 0) + int(process.usedGpuMemory)
                        sizes[process.pid] = size
        except self._nvml.NVMLError as error:
            raise UnreadableError(f"NVML: {error}") from None
        return sizes

    def close(self) -> None:
        """Let go of the library, which counts how often it was opened."""
        self._devices = []
        try:
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError:
            # Closed before.
            return


class NvmapMemory:
    """A Jetson's allocator of memory for its GPU; its file is root's.

    Raises:
        UnreadableError: there is none, or it is not for us.
    """

    source = "nvmap"

    def __init__(self, machine: SystemFiles) -> None:
        self._machine = machine
        machine.text(NVMAP)

    def read(self) -> dict[int, int]:
        """Map each client."""
        sizes: dict[int, int] = {}
        for pid, kib in _NVMAP_CLIENT.findall(self._machine.text(NVMAP)):
            sizes[int(pid)] = sizes.get(int(pid), 0) + (int(kib) << 10)
        return sizes

    def close(self) -> None:
        """Do nothing: nothing is kept open."""


ProcessMemory: TypeAlias = NvmlMemory | NvmapMemory


def process_memory(machine: SystemFiles | None = None) -> ProcessMemory:
    """Open what tells it here: a Jetson's allocator, else NVML.

    Raises:
        UnreadableError: neither does; says why of both.
    """
    machine = machine or SystemFiles()
    try:
        return NvmapMemory(machine)
    except UnreadableError as error:
        reason = str(error)
    try:
        return NvmlMemory()
    except UnreadableError as error:
        raise UnreadableError(f"{error}; {reason}") from None


@dataclass(frozen=True)
class SystemFigure:
    """A figure of the whole machine: what reads it (bytes), and where from."""

    read: Callable[[SystemFiles], int]
    source: str


def _meminfo(machine: SystemFiles, whole: str, free: str) -> int:
    values = [machine.field(_MEMINFO, [name]).split()[0] for name in (whole, free)]
    return (int(values[0]) - int(values[1])) << 10


def _cma_in_use(machine: SystemFiles) -> int:
    if machine.field(_MEMINFO, ["CmaTotal"]).split()[0] == "0":
        raise UnreadableError("no memory is set aside for devices (CmaTotal is 0)")
    return _meminfo(machine, "CmaTotal", "CmaFree")


def _nvmap_total(machine: SystemFiles) -> int:
    match = _NVMAP_TOTAL.search(machine.text(NVMAP))
    if match is None:
        raise UnreadableError(f"/{NVMAP}: it has no total")
    return int(match[1]) << 10


#: What the machine as a whole tells, also of memory that no cgroup is charged for.
SYSTEM_FIGURES: Mapping[str, SystemFigure] = {
    "ram": SystemFigure(
        lambda machine: _meminfo(machine, "MemTotal", "MemAvailable"),
        "MemTotal - MemAvailable of /proc/meminfo",
    ),
    "cma": SystemFigure(_cma_in_use, "CmaTotal - CmaFree of /proc/meminfo"),
    "nvmap": SystemFigure(_nvmap_total, f"the total of /{NVMAP}"),
}


_DRIVER = "libcuda.so.1"
#: A line of torch's ``version.py``; None where it is built without.
_CUDA = re.compile(r"^cuda\s*(?::[^=]*)?=\s*(.+)$", re.MULTILINE)
_VERSION = re.compile(r"^__version__\s*=\s*['\"]([^'\"]+)['\"]", re.MULTILINE)
#: cuda.h
_NO_DEVICE = 100
PROCESSOR_ALONE = (
    "install a torch with CUDA (pytorch.org/get-started; on a Jetson NVIDIA's own), or leave "
    '"cuda" out of accelerator'
)
NO_DRIVER = 'install NVIDIA\'s driver (nvidia-smi shows it), or leave "cuda" out of accelerator'


def why_no_cuda(version_file: Path | None = None, driver: str = _DRIVER) -> tuple[str, str] | None:
    """Say why CUDA can't be used, and what helps; None if it can.

    Args:
        version_file: of the torch to look at; None: the one that would be imported.
        driver: the name of the driver's library.
    """
    if version_file is None and (torch := find_spec("torch")) and torch.origin:
        version_file = Path(torch.origin).with_name("version.py")
    try:
        text = version_file.read_text(errors="replace") if version_file else ""
    except OSError:
        # Torch itself says so when it is imported.
        text = ""
    built, version = _CUDA.search(text), _VERSION.search(text)
    if built and built[1].strip() == "None":
        name = f"torch {version[1]}" if version else "it"
        return f"this torch has no CUDA: {name} is built without it", PROCESSOR_ALONE
    try:
        # These functions of the driver make no context.
        library = ctypes.CDLL(driver)
        code = int(library.cuInit(0))
        count = ctypes.c_int(0)
        code = code or int(library.cuDeviceGetCount(ctypes.byref(count)))
    except (OSError, AttributeError):
        return f"no CUDA driver is installed ({driver} is not found)", NO_DRIVER
    if code == _NO_DEVICE or (not code and not count.value):
        return "the CUDA driver finds no GPU", NO_DRIVER
    return (f"the CUDA driver doesn't start (error {code})", NO_DRIVER) if code else None
