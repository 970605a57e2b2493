"""Remedies of a process: how it allocates memory, and how it computes."""

from __future__ import annotations

import platform
from collections.abc import Callable
from ctypes.util import find_library
from functools import cache

from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.remedies.base import LINE, Remedy, RemedySetting, RemedyTarget, with_settings
from edgebench.workloads.engines.engine import TORCH
from edgebench.workloads.memory_settings import DEFAULT, FROZEN

_OPENMP_THREADS = "OMP_NUM_THREADS"
_PRELOAD = "LD_PRELOAD"
_ALREADY = "it does so already"
_ONE_THREAD = "it has one thread already"
_NOT_GLIBC = "the C library is not glibc"
_MAPPED_AGAIN = "the kernel maps and zeroes each such block again: slower where memory is no limit"
_ZEROED_AGAIN = "pages are zeroed again: slower where memory is no limit"
_ALLOCATED_AGAIN = "more calls of the allocator: slower where memory is no limit"


def _glibc_reads(variable: str) -> Callable[[RemedyTarget], str | None]:
    """Of a variable that glibc's allocator reads when a process starts."""

    def unfit(target: RemedyTarget) -> str | None:
        if platform.libc_ver()[0] != "glibc":
            return _NOT_GLIBC
        if _PRELOAD in target.environment:
            return f"{_PRELOAD} may have put another allocator in place of glibc's"
        return f"{variable} is set already" if variable in target.environment else None

    return unfit


def _glibc_variable(variable: str, value: str) -> Callable[[RemedyTarget], RemedySetting]:
    return lambda _: RemedySetting(env={variable: value})


def _can_not_preload(
    library: str, package: str, variable: str
) -> Callable[[RemedyTarget], str | None]:
    """Of an allocator: ``library`` is its name for the linker, ``package`` Debian's.

    ``variable`` is the allocator's own.
    """

    def unfit(target: RemedyTarget) -> str | None:
        if _library_file(library) is None:
            return f"{library} is not installed: apt install {package}"
        known = [name for name in (_PRELOAD, variable) if name in target.environment]
        return f"{known[0]} is set already" if known else None

    return unfit


def _preload(library: str, variable: str, value: str) -> Callable[[RemedyTarget], RemedySetting]:
    return lambda _: RemedySetting(env={_PRELOAD: _library_file(library) or "", variable: value})


@cache
def _library_file(library: str) -> str | None:
    """Return the file name that the linker finds by itself; None: not installed."""
    return find_library(library)


def _not_trimmed(target: RemedyTarget) -> str | None:
    """malloc_trim is a call between rounds, which only glibc has."""
    if target.kind == "command":
        return "edgebench can't call it in a program"
    if target.kind == "inference" and target.runtime != TORCH:
        return f"edgebench does not call it in {target.runtime}"
    if platform.libc_ver()[0] != "glibc":
        return _NOT_GLIBC
    return _ALREADY if target.settings.get("malloc_trim") else None


def _not_one_thread(target: RemedyTarget) -> str | None:
    if target.cores == 1 or target.settings.get("threads") == 1:
        return _ONE_THREAD
    if _OPENMP_THREADS in target.environment:
        return f"{_OPENMP_THREADS} is set already"
    return None


def _one_thread(target: RemedyTarget) -> RemedySetting:
    """Return the variable for one thread, where OpenMP computes and no setting gives the number."""
    if target.runtime in (None, TORCH) and not target.settings.get("threads"):
        return RemedySetting(env={_OPENMP_THREADS: "1"})
    return RemedySetting(settings={"threads": 1})


def _not_one_interop_thread(target: RemedyTarget) -> str | None:
    """Only PyTorch has this pool; on one core it has one thread."""
    if target.kind == "command":
        return "edgebench can't set it in a program"
    if target.runtime != TORCH:
        return f"{target.runtime} has no such threads"
    if target.cores == 1:
        return _ONE_THREAD
    return "it is chosen already" if target.settings.get("interop_threads") else None


def _not_frozen(target: RemedyTarget) -> str | None:
    """Refuse where rounds run without collections already (unless a scenario sets ``gc``)."""
    if target.kind == "command":
        return "edgebench can't set it in a program"
    return None if target.settings.get("gc") == DEFAULT else "it is frozen already"


def _huge_pages_stay(target: RemedyTarget) -> str | None:
    if target.kind == "command":
        return "edgebench can't set it in a program"
    if target.kind == "inference" and target.runtime != TORCH:
        return f"edgebench does not set it for {target.runtime}"
    if target.settings.get("huge_pages") is False:
        return _ALREADY
    try:
        found = SystemFiles().text("sys/kernel/mm/transparent_hugepage/enabled")
    except UnreadableError:
        return "the kernel has no transparent huge pages"
    return None if "[always]" in found else "the kernel gives them only to those who ask for them"


def _onnx_without(key: str, already: str) -> Callable[[RemedyTarget], str | None]:
    """Of what ONNX Runtime does unless the setting ``key`` is false."""

    def unfit(target: RemedyTarget) -> str | None:
        if target.runtime != "onnxruntime":
            return "it does not run in ONNX Runtime"
        return None if target.settings.get(key, True) else already

    return unfit


def _not_in_xnnpack(target: RemedyTarget) -> str | None:
    """LiteRT's delegate, which is there unless it is switched off."""
    if target.runtime != "litert":
        return "it does not run in LiteRT"
    return None if target.settings.get("xnnpack", True) else "it does without already"


REMEDIES = (
    # By itself glibc raises both thresholds to 32 MiB and 64 MiB: smaller freed blocks stay.
    Remedy(
        name="mmap-threshold",
        group="allocator",
        title="glibc gives blocks of 128 KiB and more back to the kernel when they are freed",
        costs=_MAPPED_AGAIN,
        source="mallopt(3), M_MMAP_THRESHOLD",
        unfit=_glibc_reads("MALLOC_MMAP_THRESHOLD_"),
        setting=_glibc_variable("MALLOC_MMAP_THRESHOLD_", "131072"),
        promise=1,
    ),
    # Smaller blocks stay in the heap, so that less is mapped and zeroed again.
    Remedy(
        name="mmap-threshold-1m",
        group="allocator",
        title="glibc gives blocks of 1 MiB and more back to the kernel when they are freed",
        costs=_MAPPED_AGAIN,
        source="mallopt(3), M_MMAP_THRESHOLD",
        unfit=_glibc_reads("MALLOC_MMAP_THRESHOLD_"),
        setting=_glibc_variable("MALLOC_MMAP_THRESHOLD_", "1048576"),
    ),
    Remedy(
        name="trim-threshold",
        group="allocator",
        title="glibc gives the free end of its heap back to the kernel from 128 KiB on",
        costs=f"more system calls, and {_ZEROED_AGAIN}",
        source="mallopt(3), M_TRIM_THRESHOLD",
        unfit=_glibc_reads("MALLOC_TRIM_THRESHOLD_"),
        setting=_glibc_variable("MALLOC_TRIM_THRESHOLD_", "131072"),
        promise=1,
    ),
    # By itself glibc makes up to eight heaps a core; free memory in one serves no other.
    Remedy(
        name="arena-max",
        group="allocator",
        title="glibc keeps one heap for all threads",
        costs="threads wait for each other where they allocate at the same time",
        source="mallopt(3), M_ARENA_MAX",
        unfit=_glibc_reads("MALLOC_ARENA_MAX"),
        setting=_glibc_variable("MALLOC_ARENA_MAX", "1"),
    ),
    # Once a round instead of at each free: fewer pages have to be zeroed again.
    Remedy(
        name="malloc-trim",
        group="allocator",
        title="glibc gives the heap's free pages back to the kernel "
        "at the end of each round or step",
        costs="pages are zeroed again in each round: slower where memory is no limit",
        source="malloc_trim(3)",
        unfit=_not_trimmed,
        setting=with_settings(
            'ctypes.CDLL("libc.so.6").malloc_trim(0)   # after each step', malloc_trim=True
        ),
        effort=LINE,
    ),
    # Without its variable jemalloc gives pages back some seconds after they are freed.
    Remedy(
        name="jemalloc",
        group="allocator",
        title="jemalloc allocates, and gives pages back at once",
        costs=_ZEROED_AGAIN,
        source="jemalloc's TUNING.md, dirty_decay_ms",
        unfit=_can_not_preload("jemalloc", "libjemalloc2", "MALLOC_CONF"),
        setting=_preload("jemalloc", "MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0"),
        effort=LINE,
        promise=1,
    ),
    # Without its variable tcmalloc gives few pages back.
    Remedy(
        name="tcmalloc",
        group="allocator",
        title="tcmalloc allocates, and gives pages back at once",
        costs=_ZEROED_AGAIN,
        source="gperftools, src/page_heap.cc, TCMALLOC_AGGRESSIVE_DECOMMIT",
        unfit=_can_not_preload(
            "tcmalloc_minimal", "libtcmalloc-minimal4", "TCMALLOC_AGGRESSIVE_DECOMMIT"
        ),
        setting=_preload("tcmalloc_minimal", "TCMALLOC_AGGRESSIVE_DECOMMIT", "1"),
        effort=LINE,
        promise=1,
    ),
    # The arena grows in powers of two, and keeps what it has.
    Remedy(
        name="no-onnx-arena",
        group="allocator",
        title="ONNX Runtime allocates each tensor by itself",
        costs=_ALLOCATED_AGAIN,
        source="ONNX Runtime's SessionOptions.enable_cpu_mem_arena",
        unfit=_onnx_without("arena", "it has no arena already"),
        setting=with_settings("session_options.enable_cpu_mem_arena = False", arena=False),
        effort=LINE,
    ),
    # After the first execution one block of the largest size is kept for all activations.
    Remedy(
        name="no-onnx-pattern",
        group="runtime",
        title="ONNX Runtime keeps no block that holds all activations",
        costs=_ALLOCATED_AGAIN,
        source="ONNX Runtime's SessionOptions.enable_mem_pattern",
        unfit=_onnx_without("memory_pattern", "it has none already"),
        setting=with_settings("session_options.enable_mem_pattern = False", memory_pattern=False),
        effort=LINE,
    ),
    # Packed weights are a second copy in anonymous memory: only swap can hold it.
    Remedy(
        name="no-onnx-prepacking",
        group="packing",
        title="ONNX Runtime keeps no packed copy of weights",
        costs="weights are packed in each execution: slower where memory is no limit",
        source="ONNX Runtime's session.disable_prepacking",
        changes="the last digits: another kernel may compute a layer",
        unfit=_onnx_without("prepacking", "it packs none already"),
        setting=with_settings(
            'session_options.add_session_config_entry("session.disable_prepacking", "1")',
            prepacking=False,
        ),
        effort=LINE,
    ),
    # XNNPACK holds its own packed copy of weights, and a workspace for activations.
    Remedy(
        name="no-xnnpack",
        group="packing",
        title="LiteRT computes without XNNPACK, so it keeps no packed copy of weights",
        costs="plain kernels: slower where memory is no limit",
        source="LiteRT's OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES",
        changes="the last digits: other kernels compute",
        unfit=_not_in_xnnpack,
        setting=with_settings(
            "Interpreter(model_path, experimental_op_resolver_type="
            "OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)",
            xnnpack=False,
        ),
        effort=LINE,
    ),
    # Each thread has a stack, a part of the allocator's cache, and scratch memory of its own.
    # Threads that swap one layer back wait for one another.
    Remedy(
        name="one-thread",
        group="runtime",
        title="computes in one thread, which needs less scratch memory",
        costs="the other cores stand idle",
        source="OpenMP 5.2, OMP_NUM_THREADS",
        changes="the last digits: sums are added up in another order",
        unfit=_not_one_thread,
        setting=_one_thread,
    ),
    # PyTorch has a second pool of threads, as many as cores, for what a program forks.
    Remedy(
        name="one-interop-thread",
        group="runtime",
        title="runs one operator at a time, so that there is one stack and one scratch memory",
        costs="nothing, unless the network itself forks tasks (torch.jit.fork)",
        source="torch.set_num_interop_threads",
        unfit=_not_one_interop_thread,
        setting=with_settings(
            "torch.set_num_interop_threads(1)   # before the first operator", interop_threads=1
        ),
        effort=LINE,
    ),
    # A full collection reads every object of the heap, also those that are swapped out.
    Remedy(
        name="frozen-collector",
        group="runtime",
        title="Python's garbage collector leaves what was there before the first round alone",
        costs="garbage in cycles stays until a collection is asked for",
        source="Python's gc.freeze",
        unfit=_not_frozen,
        setting=with_settings(
            "import gc; gc.collect(); gc.freeze(); gc.disable()   # before the first round",
            gc=FROZEN,
        ),
        effort=LINE,
    ),
    # A huge page is in memory as a whole, 2 MiB on most machines, even if few bytes are used.
    Remedy(
        name="no-huge-pages",
        group="runtime",
        title="uses pages of the usual size only, so that nothing is in memory that is not used",
        costs="more entries of page tables: a few percent slower where memory is no limit",
        source="prctl(2), PR_SET_THP_DISABLE; Documentation/admin-guide/mm/transhuge.rst",
        unfit=_huge_pages_stay,
        setting=with_settings(
            "ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)   # PR_SET_THP_DISABLE; children inherit it",
            huge_pages=False,
        ),
        effort=LINE,
    ),
)
