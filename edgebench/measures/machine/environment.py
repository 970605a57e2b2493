"""Where a sweep ran, as plain data: all that may explain why two sweeps differ.

That includes what else takes memory back: the kernel's helpers, daemons, a hypervisor. Nothing here
is measured under a limit or takes longer than a glance. What can't be read is ``None`` and its key
stands in ``missing`` with the reason. Keys are listed at :func:`capture`.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import re
import socket
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from edgebench.caller_process import NOT_FOUND, CallError, run_as_caller
from edgebench.errors import UsageError
from edgebench.measures.machine.system_files import (
    CPU_FREQUENCY,
    PAGE_REPORTING,
    SWAP_FILES,
    SystemFiles,
    UnreadableError,
    board,
    disk_of,
    frequencies,
    ram_bytes,
    swap_devices,
    temperatures,
    throttle_counts,
)
from edgebench.processes import caller_identity, given_environment, workload_environment
from edgebench.records import SCHEMA
from edgebench.version import __version__

#: Where the monitors of DAMON, which watches accesses to memory, are set up.
KDAMONDS = "sys/kernel/mm/damon/admin/kdamonds"
ZSWAP = "sys/module/zswap/parameters"
LRU_GEN = "sys/kernel/mm/lru_gen"
#: Daemons that kill, or push memory out, before the kernel would.
DAEMONS = ("earlyoom", "nohang", "oomd", "senpai", "systemd-oomd")
#: Driver of a hypervisor's balloon → what is there for each device that it has.
_DEVICES = {
    "virtio_balloon": "sys/bus/virtio/drivers/virtio_balloon/virtio*",
    "virtio_mem": "sys/bus/virtio/drivers/virtio_mem/virtio*",
    "hv_balloon": "sys/bus/vmbus/drivers/hv_balloon/*-*",
    "xen_balloon": "sys/devices/system/xen_memory/xen_memory*",
    "vmw_balloon": "sys/module/vmw_balloon",
}


def damon(machine: SystemFiles) -> dict[str, Any]:
    """Read ``running`` (DAMON's threads that do), and ``actions`` of their schemes (``pageout``).

    Raises:
        UnreadableError: the kernel has none, or it is not for us and no thread of it runs.
    """
    running = [name for name in process_names(machine) if name.startswith("kdamond")]
    if not running:
        # Its files tell that there is none; a kernel without them says why.
        machine.number(f"{KDAMONDS}/nr_kdamonds")
    actions = set()
    for state in machine.each(f"{KDAMONDS}/*/state"):
        monitor = state.parent.relative_to(machine.root)
        # Only root may read them.
        with contextlib.suppress(UnreadableError):
            if machine.text(f"{monitor}/state") == "on":
                files = machine.each(f"{monitor}/contexts/*/schemes/*/action")
                actions |= {machine.text(str(file.relative_to(machine.root))) for file in files}
    return {"running": running, "actions": sorted(actions)}


def zswap(machine: SystemFiles) -> dict[str, Any]:
    """Read ``enabled``, ``compressor``, ``max_pool_percent`` of the compressed pool before swap.

    Raises:
        UnreadableError: the kernel has none.
    """
    return {
        "enabled": machine.text(f"{ZSWAP}/enabled") == "Y",
        "compressor": machine.text(f"{ZSWAP}/compressor"),
        "max_pool_percent": machine.number(f"{ZSWAP}/max_pool_percent"),
    }


def lru_gen(machine: SystemFiles) -> dict[str, Any]:
    """Read the multi-generation LRU: ``enabled``, and ``min_ttl_ms``, below which it rather kills.

    Raises:
        UnreadableError: the kernel has none.
    """
    return {
        "enabled": machine.number(f"{LRU_GEN}/enabled") != 0,
        "min_ttl_ms": machine.number(f"{LRU_GEN}/min_ttl_ms"),
    }


def memory_daemons(machine: SystemFiles) -> list[str]:
    """List which of :data:`DAEMONS` run."""
    return sorted(set(process_names(machine)) & set(DAEMONS))


def process_names(machine: SystemFiles) -> list[str]:
    """List the names of all processes and threads of the kernel, sorted.

    Raises:
        UnreadableError: none can be read.
    """
    names = []
    for path in machine.each("proc/[0-9]*/comm"):
        # It may have ended meanwhile.
        with contextlib.suppress(UnreadableError):
            names.append(machine.text(str(path.relative_to(machine.root))))
    if not names:
        raise UnreadableError("/proc: no process can be read")
    return sorted(names)


def ballooning(machine: SystemFiles) -> dict[str, Any]:
    """Read ``drivers`` that can give memory away, and ``inflated_pages`` given since boot.

    ``inflated_pages`` is None where the kernel doesn't count them.
    """
    drivers = [name for name, pattern in _DEVICES.items() if machine.each(pattern)]
    pages = None
    with contextlib.suppress(UnreadableError, ValueError):
        counted = dict(line.split() for line in machine.text("proc/vmstat").splitlines())
        pages = int(counted["balloon_inflate"]) if "balloon_inflate" in counted else None
    return {"drivers": drivers, "inflated_pages": pages}


#: Where the checkout lies, if this is one.
_CHECKOUT = Path(__file__).resolve().parents[3]
#: Libraries whose version may change what is measured.
LIBRARIES = (
    *("torch", "torchvision", "onnxruntime", "ai-edge-litert", "safetensors", "numpy", "scipy"),
    *("tensorflow", "tensorflow-cpu", "keras"),
    *("pandas", "seaborn", "matplotlib", "pydantic", "cgroupspy", "psutil"),
)
#: Variables that move memory or time; anything else in the environment is nobody's business.
_VARIABLES = re.compile(
    r"^(MALLOC_|OMP_|MKL_|OPENBLAS_|KMP_|GOMP_|ATEN_|TORCH_|PYTORCH_|TF_ENABLE_|XLA_FLAGS$|LD_PRELOAD$|PYTHONMALLOC$"
    r"|EDGEBENCH_|GLIBC_TUNABLES$)"
)


def capture(
    describe: Callable[[], dict[str, Any]] | None = None,
    machine: SystemFiles | None = None,
    weights: Path | None = None,
) -> dict[str, Any]:
    """Read all that is worth knowing of this machine now, ready for ``json.dumps``.

    Its keys are ``schema``, ``captured_utc``, ``edgebench``, those of :func:`_readers`, and
    ``missing`` (key → reason). ``cpu_cores`` are online, ``cpu_cores_usable`` those this process
    may run on. ``frequency_hz`` has the first core's least, most and current rate,
    ``temperatures_c`` °C by zone, ``throttle_counts`` events since boot by counter.
    ``swap_file_disk`` is the disk under a swap file of a sweep's own. ``load_average`` is over 1, 5
    and 15 minutes; ``libraries`` has None for what is not installed; ``git`` is edgebench's own.

    Args:
        describe: describes the parent cgroup; None: the mounted versions stand in its place.
        machine: where its files are.
        weights: the folder that weights are read from.
    """
    machine = machine or SystemFiles()
    captured: dict[str, Any] = {
        "schema": SCHEMA,
        "captured_utc": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "edgebench": __version__,
    }
    missing: dict[str, str] = {}
    readers: dict[str, Callable[[], Any]] = _readers(describe, machine, weights)
    for key, read in readers.items():
        try:
            captured[key] = read()
        except UnreadableError as reason:
            captured[key] = None
            missing[key] = str(reason)
    return {**captured, "missing": missing}


def _readers(
    describe: Callable[[], dict[str, Any]] | None, machine: SystemFiles, weights: Path | None
) -> dict[str, Callable[[], Any]]:
    vm = "proc/sys/vm"
    return {
        "device": device_name,
        "hostname": socket.gethostname,
        "board": lambda: board(machine),
        "architecture": platform.machine,
        "kernel": platform.release,
        "os": lambda: machine.field("etc/os-release", ["PRETTY_NAME"]),
        "cpu_model": lambda: machine.field("proc/cpuinfo", ["model name", "Model", "Hardware"]),
        "cpu_cores": os.cpu_count,
        "cpu_cores_usable": lambda: len(os.sched_getaffinity(0)),
        "governor": lambda: machine.text(f"{CPU_FREQUENCY}/scaling_governor"),
        "frequency_hz": lambda: frequencies(machine),
        "temperatures_c": lambda: temperatures(machine),
        "throttle_counts": lambda: throttle_counts(machine),
        "ram_bytes": lambda: ram_bytes(machine),
        "page_bytes": lambda: os.sysconf("SC_PAGE_SIZE"),
        "swap": lambda: swap_devices(machine),
        "swappiness": lambda: machine.number(f"{vm}/swappiness"),
        "page_cluster": lambda: machine.number(f"{vm}/page-cluster"),
        "weights_disk": lambda: _weights_disk(machine, weights),
        "swap_file_disk": lambda: disk_of(machine, SWAP_FILES),
        "damon": lambda: damon(machine),
        "zswap": lambda: zswap(machine),
        "lru_gen": lambda: lru_gen(machine),
        "memory_daemons": lambda: memory_daemons(machine),
        "ballooning": lambda: ballooning(machine),
        "thp": lambda: machine.chosen("sys/kernel/mm/transparent_hugepage/enabled"),
        "page_reporting_order": lambda: machine.number(PAGE_REPORTING),
        "overcommit": lambda: machine.number(f"{vm}/overcommit_memory"),
        "cgroup": describe or (lambda: _mounted_cgroups(machine)),
        "load_average": lambda: [float(load) for load in machine.text("proc/loadavg").split()[:3]],
        "python": platform.python_version,
        "libraries": _libraries,
        "variables": lambda: {
            k: v for k, v in sorted(given_environment().items()) if _VARIABLES.match(k)
        },
        "git": _git,
    }


def _weights_disk(machine: SystemFiles, weights: Path | None) -> dict[str, Any]:
    if weights is None:
        raise UnreadableError("no weights are read")
    return disk_of(machine, weights)


def _mounted_cgroups(machine: SystemFiles) -> dict[str, Any]:
    mounted = machine.text("proc/self/mounts")
    kinds = {line.split()[2] for line in mounted.splitlines() if len(line.split()) > 2}
    return {
        "mounted": sorted(kinds & {"cgroup", "cgroup2"}),
        "own": machine.text("proc/self/cgroup").splitlines(),
    }


def _libraries() -> dict[str, str | None]:
    """Installed versions, read from the packages' metadata: nothing heavy is imported."""
    versions: dict[str, str | None] = {}
    for name in LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def _git() -> dict[str, Any]:
    """Read the commit, and whether tracked files differ, of the edgebench that runs.

    Raises:
        UnreadableError: git can't read the checkout; the copy was built without git.
    """
    if not (_CHECKOUT / ".git").exists():
        try:
            from edgebench._version import changed, commit
        except ImportError:
            commit = None
        if commit is None:
            raise UnreadableError("this copy of edgebench was built without git")
        return {"commit": commit.removeprefix("g"), "changed": changed}
    command = ["git", "-C", str(_CHECKOUT), "--no-optional-locks"]
    command += ["describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"]
    # A checkout's settings may name programs for git to run: not as root.
    identity = caller_identity()
    try:
        done = run_as_caller(command, identity, workload_environment(identity), limit_s=10)
    except CallError as error:
        raise UnreadableError(f"git: {error}") from None
    if done.returncode == NOT_FOUND:
        raise UnreadableError("git is not installed")
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise UnreadableError(f"git: {lines[0] if lines else f'exit code {done.returncode}'}")
    described, _, dirty = done.stdout.decode(errors="replace").strip().partition("-")
    return {"commit": described, "changed": bool(dirty)}


def device_name(machine: SystemFiles | None = None) -> str:
    """Name the machine in results: ``EDGEBENCH_DEVICE``, else host name and board.

    It becomes a folder's name, so only ``a-z 0-9 -`` remain.

    Raises:
        UsageError: ``EDGEBENCH_DEVICE`` has no letter or digit.
    """
    given = os.environ.get("EDGEBENCH_DEVICE")
    if given is not None:
        if name := _slug(given):
            return name
        raise UsageError(
            f"EDGEBENCH_DEVICE={given!r} is no name for a device",
            remedy="name it with letters and digits: EDGEBENCH_DEVICE=jetson-nano",
        )
    words = [socket.gethostname()]
    # Only a board's own name is of use here: a PC's firmware says "To be filled by O.E.M.".
    with contextlib.suppress(UnreadableError):
        words.append((machine or SystemFiles()).text("proc/device-tree/model"))
    return _slug("-".join(words)) or sys.platform


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:60].strip("-")
