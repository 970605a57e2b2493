"""Remedies of a process: how it allocates memory and computes."""

from __future__ import annotations

import platform
from ctypes.util import find_library
from functools import cache

from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.remedies.base import (
    LINE,
    Check,
    Remedy,
    RemedySetting,
    RemedyTarget,
    first_reason,
    only,
    refuse,
    with_keys,
)
from edgebench.workloads.engines.engine import TORCH
from edgebench.workloads.memory_settings import FROZEN

_PRELOAD, _JEMALLOC_CONF, _OPENMP_THREADS = "LD_PRELOAD", "MALLOC_CONF", "OMP_NUM_THREADS"
_ZEROED_AGAIN = "pages are zeroed again: slower where memory is no limit"
_is_program = refuse("edgebench can't set it in a program", lambda target: target.kind == "command")
#: What a worker does to its own process can't be done in any program, nor in each engine.
_in_worker = first_reason(
    _is_program,
    refuse(
        "edgebench sets it in PyTorch alone",
        lambda target: target.kind == "inference" and target.runtime != TORCH,
    ),
)
_not_onnx = only("inference", "onnxruntime", "ONNX Runtime")
_not_glibc = refuse("the C library is not glibc", lambda _: platform.libc_ver()[0] != "glibc")


def _is_set(*variables: str) -> Check:
    """Refuse where a variable has a value already."""

    def check(target: RemedyTarget) -> str | None:
        found = next((name for name in variables if name in target.environment), None)
        return f"{found} is set already" if found else None

    return check


@cache
def _jemalloc() -> str:
    """Return the file name that the linker finds by itself; empty: not installed."""
    return find_library("jemalloc") or ""


def _one_thread(target: RemedyTarget) -> RemedySetting:
    """Set the variable where OpenMP computes and no setting gives the number."""
    if target.runtime in (None, TORCH) and not target.settings.get("threads"):
        return RemedySetting(env={_OPENMP_THREADS: "1"})
    return RemedySetting(settings={"threads": 1})


def _huge_pages_stay(target: RemedyTarget) -> str | None:
    try:
        enabled = SystemFiles().text("sys/kernel/mm/transparent_hugepage/enabled")
    except UnreadableError:
        return "the kernel has no transparent huge pages"
    return None if "[always]" in enabled else "the kernel gives them only to those who ask for them"


REMEDIES = (
    # By itself glibc raises the threshold to 32 MiB: smaller freed blocks stay.
    Remedy(
        "mmap-threshold",
        "glibc gives blocks of 128 KiB and more back to the kernel when they are freed",
        costs="the kernel maps and zeroes each such block again: slower where memory is no limit",
        source="mallopt(3), M_MMAP_THRESHOLD",
        unfit=first_reason(_not_glibc, _is_set(_PRELOAD, "MALLOC_MMAP_THRESHOLD_")),
        setting=lambda _: RemedySetting(env={"MALLOC_MMAP_THRESHOLD_": "131072"}),
        promise=1,
    ),
    # By itself glibc makes up to eight heaps a core; free memory in one serves no other.
    Remedy(
        "arena-max",
        "glibc keeps one heap for all threads",
        costs="threads wait for each other where they allocate at the same time",
        source="mallopt(3), M_ARENA_MAX",
        unfit=first_reason(_not_glibc, _is_set(_PRELOAD, "MALLOC_ARENA_MAX")),
        setting=lambda _: RemedySetting(env={"MALLOC_ARENA_MAX": "1"}),
    ),
    # Once a round instead of at each free: fewer pages have to be zeroed again.
    Remedy(
        "malloc-trim",
        "glibc gives the heap's free pages back to the kernel at the end of each round or step",
        costs="pages are zeroed again in each round: slower where memory is no limit",
        source="malloc_trim(3)",
        unfit=first_reason(_in_worker, _not_glibc),
        setting=with_keys(
            'ctypes.CDLL("libc.so.6").malloc_trim(0)   # after each step', malloc_trim=True
        ),
        effort=LINE,
    ),
    Remedy(
        "jemalloc",
        "jemalloc allocates, and gives pages back at once",
        costs=_ZEROED_AGAIN,
        source="jemalloc's TUNING.md, dirty_decay_ms",
        unfit=first_reason(
            refuse(
                "jemalloc is not installed: apt install libjemalloc2", lambda _: not _jemalloc()
            ),
            _is_set(_PRELOAD, _JEMALLOC_CONF),
        ),
        setting=lambda _: RemedySetting(
            env={_PRELOAD: _jemalloc(), _JEMALLOC_CONF: "dirty_decay_ms:0,muzzy_decay_ms:0"}
        ),
        effort=LINE,
        promise=1,
    ),
    # The arena grows in powers of two, and keeps what it has.
    Remedy(
        "no-onnx-arena",
        "ONNX Runtime allocates each tensor by itself",
        costs="more calls of the allocator: slower where memory is no limit",
        source="ONNX Runtime's SessionOptions.enable_cpu_mem_arena",
        unfit=_not_onnx,
        setting=with_keys("session_options.enable_cpu_mem_arena = False", arena=False),
        effort=LINE,
    ),
    # Packed weights are a second copy in anonymous memory: only swap can hold it.
    Remedy(
        "no-onnx-prepacking",
        "ONNX Runtime keeps no packed copy of weights",
        costs="weights are packed in each execution: slower where memory is no limit",
        source="ONNX Runtime's session.disable_prepacking",
        changes="the last digits: another kernel may compute a layer",
        unfit=_not_onnx,
        setting=with_keys(
            'session_options.add_session_config_entry("session.disable_prepacking", "1")',
            prepacking=False,
        ),
        effort=LINE,
    ),
    # XNNPACK holds its own packed copy of weights, and a workspace for activations.
    Remedy(
        "no-xnnpack",
        "LiteRT computes without XNNPACK, so it keeps no packed copy of weights",
        costs="plain kernels: slower where memory is no limit",
        source="LiteRT's OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES",
        changes="the last digits: other kernels compute",
        unfit=only("inference", "litert", "LiteRT"),
        setting=with_keys(
            "Interpreter(model_path, experimental_op_resolver_type="
            "OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)",
            xnnpack=False,
        ),
        effort=LINE,
    ),
    # Each thread has a stack, a part of the allocator's cache, and scratch memory of its own.
    # Threads that swap one layer back wait for one another.
    Remedy(
        "one-thread",
        "computes in one thread, which needs less scratch memory",
        costs="the other cores stand idle",
        source=f"OpenMP 5.2, {_OPENMP_THREADS}",
        changes="the last digits: sums are added up in another order",
        unfit=first_reason(
            refuse(
                "it has one thread already",
                lambda target: target.cores == 1 or target.settings.get("threads") == 1,
            ),
            _is_set(_OPENMP_THREADS),
        ),
        setting=_one_thread,
    ),
    # A full collection reads every object of the heap, also those that are swapped out.
    Remedy(
        "frozen-collector",
        "Python's garbage collector leaves what was there before the first round alone",
        costs="garbage in cycles stays until a collection is asked for",
        source="Python's gc.freeze",
        unfit=_is_program,
        setting=with_keys(
            "import gc; gc.collect(); gc.freeze(); gc.disable()   # before the first round",
            gc=FROZEN,
        ),
        effort=LINE,
    ),
    # A huge page is in memory as a whole, 2 MiB on most machines, even if few bytes are used.
    Remedy(
        "no-huge-pages",
        "uses pages of the usual size only, so that nothing is in memory that is not used",
        costs="more entries of page tables: a few percent slower where memory is no limit",
        source="prctl(2), PR_SET_THP_DISABLE; Documentation/admin-guide/mm/transhuge.rst",
        unfit=first_reason(_in_worker, _huge_pages_stay),
        setting=with_keys(
            "ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)   # PR_SET_THP_DISABLE; children inherit it",
            huge_pages=False,
        ),
        effort=LINE,
    ),
)
