"""One machine's own figures: temperatures, clock rates, RAM, disks, swap, accelerators' memory.

Most are read from small files. A value that isn't there is an :class:`UnreadableError` with the
reason, never a guess.

No cgroup counts an accelerator's memory: of a card it is memory of its own, of a board with shared
memory it is RAM that the driver took. So the driver is asked for each process's, and beside it
stands what the whole machine tells. Whether CUDA can be used is found out without torch.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from edgebench.installation import install
from edgebench.swap_areas import parse_swap_areas

#: The first core's clock files.
CPU_FREQUENCY = "sys/devices/system/cpu/cpu0/cpufreq"
#: The word of flags of a Raspberry Pi's firmware, hexadecimal without ``0x``.
PI_FLAGS = "sys/devices/platform/soc*/soc*:firmware/get_throttled"
#: From which block size (2^n pages) on free memory is reported to a hypervisor.
PAGE_REPORTING = "sys/module/page_reporting/parameters/page_reporting_order"


class UnreadableError(Exception):
    """A value that this machine doesn't have; the message says why."""


class SystemFiles:
    """The files of one machine, below ``root`` (a folder of plain files in tests)."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def text(self, path: str) -> str:
        """Read a small file's text without its last newline or NUL.

        Raises:
            UnreadableError: not there, or not for us.
        """
        try:
            return (self.root / path).read_text(errors="replace").strip().rstrip("\0")
        except OSError as error:
            raise UnreadableError(f"/{path}: {error.strerror}") from None

    def number(self, path: str) -> int:
        """Read a file that holds one number.

        Raises:
            UnreadableError: not there, or no number.
        """
        text = self.text(path)
        try:
            return int(text, 0)
        except ValueError:
            raise UnreadableError(f"/{path}: {text!r} is no number") from None

    def field(self, path: str, names: Iterable[str]) -> str:
        """Read the value of the first ``name : value`` or ``name=value`` line, of these names.

        Raises:
            UnreadableError: no such file or line.
        """
        text = self.text(path)
        for name in names:
            match = re.search(rf"^{re.escape(name)}\s*[:=]\s*(.+)$", text, re.MULTILINE)
            if match:
                return match[1].strip().strip('"')
        raise UnreadableError(f"/{path}: no {' or '.join(names)}")

    def chosen(self, path: str) -> str:
        """Read the bracketed word of a file like ``always [madvise] never``."""
        text = self.text(path)
        match = re.search(r"\[([\w-]+)\]", text)
        return match[1] if match else text

    def each(self, pattern: str) -> list[Path]:
        """List the paths below the root that match, sorted."""
        return sorted(self.root.glob(pattern))


def board(machine: SystemFiles) -> str:
    """Read the board's own name: the device tree's (Jetson, Raspberry Pi), else the firmware's."""
    try:
        return machine.text("proc/device-tree/model")
    except UnreadableError:
        return machine.text("sys/class/dmi/id/product_name")


def frequencies(machine: SystemFiles) -> dict[str, int]:
    """Read the first core's least, most and current clock rate, Hz."""
    files = {"least": "cpuinfo_min_freq", "most": "cpuinfo_max_freq", "current": "scaling_cur_freq"}
    return {key: machine.number(f"{CPU_FREQUENCY}/{file}") * 1000 for key, file in files.items()}


def temperatures(machine: SystemFiles) -> dict[str, float]:
    """Read each readable thermal zone's temperature, °C.

    Raises:
        UnreadableError: the machine has no thermal zone that tells.
    """
    degrees: dict[str, float] = {}
    for zone in machine.each("sys/class/thermal/thermal_zone*"):
        folder = str(zone.relative_to(machine.root))
        try:
            name = f"{zone.name}:{machine.text(f'{folder}/type')}"
            degrees[name] = machine.number(f"{folder}/temp") / 1000
        except UnreadableError:
            # A zone whose sensor sleeps answers with an error; the others still tell.
            continue
    if not degrees:
        raise UnreadableError("/sys/class/thermal: no zone tells its temperature")
    return degrees


def throttle_counts(machine: SystemFiles) -> dict[str, int]:
    """Read how often each counter saw the CPU slowed by heat or low voltage since boot.

    x86 counts events for each core and package, a Jetson those of its supply. A Raspberry Pi has
    one word of flags, whose upper half keeps what was seen since boot: counted here as how many
    kinds were.

    Raises:
        UnreadableError: the machine has neither.
    """
    paths = machine.each("sys/devices/system/cpu/cpu*/thermal_throttle/*_throttle_count")
    paths += machine.each("sys/class/hwmon/hwmon*/oc*_event_cnt")
    paths += machine.each(PI_FLAGS)
    counts: dict[str, int] = {}
    for path in paths:
        name = path.name if path.name == "get_throttled" else f"{path.parts[-3]}/{path.name}"
        text = machine.text(str(path.relative_to(machine.root)))
        counts[name] = (int(text, 16) >> 16).bit_count() if name == "get_throttled" else int(text)
    if not counts:
        raise UnreadableError("no throttle counters in /sys/devices/system/cpu")
    return counts


def ram_bytes(machine: SystemFiles) -> int:
    """Read the RAM the kernel manages, bytes."""
    return int(machine.field("proc/meminfo", ["MemTotal"]).split()[0]) * 1024


def usable_ram_bytes(machine: SystemFiles, ceiling_bytes: int | None) -> int:
    """Read the memory that is free, and at most what the cgroups above allow; None: any.

    Raises:
        UnreadableError: the machine doesn't tell.
    """
    available = int(machine.field("proc/meminfo", ["MemAvailable"]).split()[0]) * 1024
    return min(available, ceiling_bytes or available)


@dataclass(frozen=True)
class SystemMemory:
    """Bytes of the whole machine. ``used_share`` is 1 - available / total.

    ``active_bytes`` is what was used lately, by the kernel's own count; None where it tells none.
    ``cpu_share`` is of all cores since the last reading.
    """

    t_ns: int
    total_bytes: int
    available_bytes: int
    used_bytes: int
    used_share: float
    active_bytes: int | None
    swap_used_bytes: int
    cpu_share: float


def read_system() -> SystemMemory:
    """Read them now, by psutil."""
    import psutil

    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    return SystemMemory(
        t_ns=time.monotonic_ns(),
        total_bytes=memory.total,
        available_bytes=memory.available,
        used_bytes=memory.used,
        used_share=memory.percent / 100,
        active_bytes=getattr(memory, "active", None),
        swap_used_bytes=swap.used,
        cpu_share=psutil.cpu_percent(None) / 100,
    )


#: Where a sweep makes its swap file.
SWAP_FILES = Path("/var/tmp")  # noqa: S108 - only looked at


def disk_of(machine: SystemFiles, path: Path) -> dict[str, Any]:
    """Read the disk under a file, a folder (or the first one above it that exists), or a device.

    Keys: ``disk`` (its name; of several on each other the top one, whose read-ahead counts for
    files), ``read_ahead_kb``, ``scheduler``.

    Raises:
        UnreadableError: no block device is under it, or it doesn't tell.
    """
    folder = _folder(machine, _number(path))
    return {
        "disk": folder.name,
        "read_ahead_kb": machine.number(_queue(machine, folder, "read_ahead_kb")),
        "scheduler": machine.chosen(_queue(machine, folder, "scheduler")),
    }


@dataclass(frozen=True)
class WholeDisk:
    """The topmost whole disk below a file: where the kernel holds what a process asks for.

    ``number`` is ``MAJOR:MINOR``. The others are the queue's settings, which decide what a speed
    means; None where it doesn't tell.
    """

    number: str
    name: str
    read_ahead_kb: int | None = None
    requests: int | None = None
    scheduler: str | None = None
    rotational: bool | None = None


def whole_disk(machine: SystemFiles, path: Path) -> WholeDisk:
    """Find the disk that a file, a folder or a block device lies on; of a partition its disk.

    A device mapper's or a loop device counts as a disk: below it the kernel's own threads may do
    the work, which no cgroup holds.

    Raises:
        UnreadableError: no disk is below it, or several are; says why.
    """
    folder = _folder(machine, _number(path))
    name = folder.name

    def queue(key: str) -> str | None:
        try:
            return machine.chosen(_queue(machine, folder, key))
        except UnreadableError:
            return None

    ahead, requests, turns = map(queue, ("read_ahead_kb", "nr_requests", "rotational"))
    number = machine.text(str((folder / "dev").relative_to(machine.root.resolve())))
    return WholeDisk(
        number,
        name,
        read_ahead_kb=None if ahead is None else int(ahead),
        requests=None if requests is None else int(requests),
        scheduler=queue("scheduler"),
        rotational=None if turns is None else turns == "1",
    )


def swap_devices(machine: SystemFiles) -> list[dict[str, Any]]:
    """List swap areas: name, kind (``file``, ``partition``, ``zram``), bytes, keys of the disk.

    The disk's keys (:func:`disk_of`) are None where it doesn't tell.

    Raises:
        UnreadableError: the machine tells of no swap at all.
    """
    devices = []
    for path, area in parse_swap_areas(machine.text("proc/swaps")).items():
        disk: dict[str, Any] = dict.fromkeys(("disk", "read_ahead_kb", "scheduler"))
        with contextlib.suppress(UnreadableError):
            disk = disk_of(machine, path)
        devices.append(
            {
                "name": str(path),
                "kind": "zram" if path.name.startswith("zram") else area.kind,
                "size_bytes": area.size_bytes,
                "used_bytes": area.used_bytes,
                "priority": area.priority,
                **disk,
            }
        )
    return devices


def _number(path: Path) -> tuple[int, int]:
    for folder in (path, *path.parents):
        try:
            status = folder.stat()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise UnreadableError(f"{folder}: {error.strerror}") from None
        number = status.st_rdev if stat.S_ISBLK(status.st_mode) else status.st_dev
        return os.major(number), os.minor(number)
    raise UnreadableError(f"{path}: no such folder")


def _folder(machine: SystemFiles, number: tuple[int, int]) -> Path:
    """Find the device's folder in sysfs; a partition's is its disk's."""
    folder = machine.root / "sys/dev/block/{}:{}".format(*number)
    if not folder.exists():
        kind, source = _mounted(machine, number)
        if kind == "btrfs":
            # It may be spread over disks, each of which would be held by itself.
            for entry in machine.each(f"sys/fs/btrfs/*/devices/{Path(source).name}"):
                if len(names := sorted(device.name for device in entry.parent.iterdir())) > 1:
                    several = ", ".join(names)
                    raise UnreadableError(f"it lies on btrfs on several devices: {several}")
        if not source.startswith("/dev/") or _number(Path(source)) == number:
            raise UnreadableError(f"no block device is under it: it lies on {kind}")
        return _folder(machine, _number(Path(source)))
    folder = folder.resolve()
    return folder.parent if (folder / "partition").exists() else folder


def _mounted(machine: SystemFiles, number: tuple[int, int]) -> tuple[str, str]:
    """Find kind and source of the file system with that number (btrfs makes it up)."""
    wanted = "{}:{}".format(*number)
    for line in machine.text("proc/self/mountinfo").splitlines():
        about, _, rest = line.partition(" - ")
        words = rest.split()
        if about.split()[2:3] == [wanted] and len(words) > 1:
            return words[0], words[1]
    return "an unknown file system", ""


def _queue(machine: SystemFiles, folder: Path, name: str) -> str:
    return str((folder / "queue" / name).relative_to(machine.root.resolve()))


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
