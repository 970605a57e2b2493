"""Remedies of a process: how it allocates memory, computes, and sizes its heap."""

from __future__ import annotations

import mmap
import platform
import re
from collections.abc import Callable
from ctypes.util import find_library
from functools import cache
from pathlib import Path

from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.processes import find_program
from edgebench.remedies.base import (
    LINE,
    Remedy,
    RemedySetting,
    RemedyTarget,
    first_reason,
    only,
    refuse,
    refuse_set,
    with_keys,
)
from edgebench.units import MIB
from edgebench.workloads.engines.engine import TORCH
from edgebench.workloads.memory_settings import FROZEN

_PRELOAD, _OPENMP_THREADS = "LD_PRELOAD", "OMP_NUM_THREADS"
#: Where Go's linker writes how a program was built, and how far into it that is looked for.
_GO_BUILD, _MOST_BYTES = b"\xff Go buildinf:", 256 * MIB
_HEAP_FLAGS = re.compile(r"-Xmx|MaxRAMPercentage|MaxHeapSize|max[-_]old[-_]space[-_]size")
_MAPPED_AGAIN = "the kernel maps and zeroes each such block again: slower where memory is no limit"
_ZEROED_AGAIN = "pages are zeroed again: slower where memory is no limit"
_COLLECTS = "the collector runs more often: slower where memory is no limit"
#: What a worker does to its own process can't be done in any program, nor in each engine.
_in_worker = first_reason(
    refuse("edgebench can't set it in a program", lambda target: target.kind == "command"),
    refuse(
        "edgebench sets it in PyTorch alone",
        lambda target: target.kind == "inference" and target.runtime != TORCH,
    ),
)


def _glibc(
    name: str, variable: str, value: str, *, title: str, costs: str, promise: int = 0
) -> Remedy:
    """Set a variable that glibc's allocator reads when a process starts."""

    def unfit(target: RemedyTarget) -> str | None:
        if platform.libc_ver()[0] != "glibc":
            return "the C library is not glibc"
        if _PRELOAD in target.environment:
            return f"{_PRELOAD} may have put another allocator in place of glibc's"
        return f"{variable} is set already" if variable in target.environment else None

    return Remedy(
        name,
        title,
        costs=costs,
        source=f"mallopt(3), {variable.replace('MALLOC', 'M').rstrip('_')}",
        unfit=unfit,
        setting=lambda _: RemedySetting(env={variable: value}),
        promise=promise,
    )


@cache
def _library_file(library: str) -> str:
    """Return the file name that the linker finds by itself; empty: not installed."""
    return find_library(library) or ""


def _allocator(
    name: str, library: str, package: str, variable: str, value: str, source: str
) -> Remedy:
    """Put another allocator in place of the C library's, of which ``package`` is Debian's."""

    def unfit(target: RemedyTarget) -> str | None:
        if not _library_file(library):
            return f"{library} is not installed: apt install {package}"
        known = [name for name in (_PRELOAD, variable) if name in target.environment]
        return f"{known[0]} is set already" if known else None

    return Remedy(
        name,
        f"{name} allocates, and gives pages back at once",
        costs=_ZEROED_AGAIN,
        source=source,
        unfit=unfit,
        setting=lambda _: RemedySetting(env={_PRELOAD: _library_file(library), variable: value}),
        effort=LINE,
        promise=1,
    )


def _onnx(
    name: str,
    key: str,
    line: str,
    *,
    title: str,
    source: str,
    costs: str = "more calls of the allocator: slower where memory is no limit",
    changes: str = "",
) -> Remedy:
    return Remedy(
        name,
        f"ONNX Runtime {title}",
        costs=costs,
        source=f"ONNX Runtime's {source}",
        unfit=only("inference", "onnxruntime", "ONNX Runtime"),
        setting=with_keys(line, **{key: False}),
        effort=LINE,
        changes=changes,
    )


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


def _heap(
    name: str,
    title: str,
    runtime: str,
    is_runtime: Callable[[Path], bool],
    variable: str,
    flag: Callable[[int], str],
    *,
    costs: str,
    source: str,
) -> Remedy:
    """Size a runtime's heap by the limit, behind what its variable has."""

    def unfit(target: RemedyTarget) -> str | None:
        command = target.settings.get("command") or [""]
        program = find_program(str(command[0])) if target.kind == "command" else None
        if program is None or not is_runtime(program.resolve()):
            return f"it does not run in {runtime}"
        if target.limit_bytes is None:
            return "there is no limit of memory"
        words = [*map(str, command[1:]), target.environment.get(variable, "")]
        is_sized = "GOMEMLIMIT" in target.environment or any(map(_HEAP_FLAGS.search, words))
        return "its heap is sized already" if is_sized else None

    def setting(target: RemedyTarget) -> RemedySetting:
        before = target.environment.get(variable)
        return RemedySetting(
            env={variable: " ".join(filter(None, [before, flag(target.limit_bytes or 0)]))}
        )

    return Remedy(name, title, costs=costs, source=source, unfit=unfit, setting=setting, promise=3)


def _is_go(program: Path) -> bool:
    try:
        with program.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as held:
            return held[:4] == b"\x7fELF" and held.find(_GO_BUILD, 0, _MOST_BYTES) >= 0
    except (OSError, ValueError):
        return False


REMEDIES = (
    # By itself glibc raises both thresholds to 32 MiB and 64 MiB: smaller freed blocks stay.
    _glibc(
        "mmap-threshold",
        "MALLOC_MMAP_THRESHOLD_",
        "131072",
        title="glibc gives blocks of 128 KiB and more back to the kernel when they are freed",
        costs=_MAPPED_AGAIN,
        promise=1,
    ),
    # Smaller blocks stay in the heap, so that less is mapped and zeroed again.
    _glibc(
        "mmap-threshold-1m",
        "MALLOC_MMAP_THRESHOLD_",
        "1048576",
        title="glibc gives blocks of 1 MiB and more back to the kernel when they are freed",
        costs=_MAPPED_AGAIN,
    ),
    _glibc(
        "trim-threshold",
        "MALLOC_TRIM_THRESHOLD_",
        "131072",
        title="glibc gives the free end of its heap back to the kernel from 128 KiB on",
        costs=f"more system calls, and {_ZEROED_AGAIN}",
        promise=1,
    ),
    # By itself glibc makes up to eight heaps a core; free memory in one serves no other.
    _glibc(
        "arena-max",
        "MALLOC_ARENA_MAX",
        "1",
        title="glibc keeps one heap for all threads",
        costs="threads wait for each other where they allocate at the same time",
    ),
    # Once a round instead of at each free: fewer pages have to be zeroed again.
    Remedy(
        "malloc-trim",
        "glibc gives the heap's free pages back to the kernel at the end of each round or step",
        costs="pages are zeroed again in each round: slower where memory is no limit",
        source="malloc_trim(3)",
        unfit=first_reason(
            _in_worker,
            refuse("the C library is not glibc", lambda _: platform.libc_ver()[0] != "glibc"),
        ),
        setting=with_keys(
            'ctypes.CDLL("libc.so.6").malloc_trim(0)   # after each step', malloc_trim=True
        ),
        effort=LINE,
    ),
    _allocator(
        "jemalloc",
        "jemalloc",
        "libjemalloc2",
        "MALLOC_CONF",
        "dirty_decay_ms:0,muzzy_decay_ms:0",
        "jemalloc's TUNING.md, dirty_decay_ms",
    ),
    _allocator(
        "tcmalloc",
        "tcmalloc_minimal",
        "libtcmalloc-minimal4",
        "TCMALLOC_AGGRESSIVE_DECOMMIT",
        "1",
        "gperftools, src/page_heap.cc, TCMALLOC_AGGRESSIVE_DECOMMIT",
    ),
    # The arena grows in powers of two, and keeps what it has.
    _onnx(
        "no-onnx-arena",
        "arena",
        "session_options.enable_cpu_mem_arena = False",
        title="allocates each tensor by itself",
        source="SessionOptions.enable_cpu_mem_arena",
    ),
    # After the first execution one block of the largest size is kept for all activations.
    _onnx(
        "no-onnx-pattern",
        "memory_pattern",
        "session_options.enable_mem_pattern = False",
        title="keeps no block that holds all activations",
        source="SessionOptions.enable_mem_pattern",
    ),
    # Packed weights are a second copy in anonymous memory: only swap can hold it.
    _onnx(
        "no-onnx-prepacking",
        "prepacking",
        'session_options.add_session_config_entry("session.disable_prepacking", "1")',
        title="keeps no packed copy of weights",
        source="session.disable_prepacking",
        costs="weights are packed in each execution: slower where memory is no limit",
        changes="the last digits: another kernel may compute a layer",
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
            refuse(
                f"{_OPENMP_THREADS} is set already",
                lambda target: _OPENMP_THREADS in target.environment,
            ),
        ),
        setting=_one_thread,
    ),
    # PyTorch has a second pool of threads, as many as cores, for what a program forks.
    Remedy(
        "one-interop-thread",
        "runs one operator at a time, so that there is one stack and one scratch memory",
        costs="nothing, unless the network itself forks tasks (torch.jit.fork)",
        source="torch.set_num_interop_threads",
        unfit=first_reason(
            _in_worker,
            refuse("it has no such threads", lambda target: target.runtime != TORCH),
            refuse("it has one thread already", lambda target: target.cores == 1),
            refuse_set("it is chosen already", "interop_threads"),
        ),
        setting=with_keys(
            "torch.set_num_interop_threads(1)   # before the first operator", interop_threads=1
        ),
        effort=LINE,
    ),
    # A full collection reads every object of the heap, also those that are swapped out.
    Remedy(
        "frozen-collector",
        "Python's garbage collector leaves what was there before the first round alone",
        costs="garbage in cycles stays until a collection is asked for",
        source="Python's gc.freeze",
        unfit=refuse(
            "edgebench can't set it in a program", lambda target: target.kind == "command"
        ),
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
    # By itself the heap may take a quarter of the limit.
    _heap(
        "jvm-heap",
        "the JVM's heap may take three quarters of the limit",
        "the JVM",
        lambda program: program.name == "java",
        "JAVA_TOOL_OPTIONS",
        lambda _: "-XX:MaxRAMPercentage=75",
        costs="none, unless the rest is too little for threads, code and buffers",
        source="java(1), -XX:MaxRAMPercentage",
    ),
    # By itself V8 takes half of the limit at most, and collects late.
    _heap(
        "node-heap",
        "V8's old heap may take three quarters of the limit",
        "Node",
        lambda program: program.name in ("node", "nodejs"),
        "NODE_OPTIONS",
        lambda limit: f"--max-old-space-size={int(0.75 * limit) // MIB}",
        costs=_COLLECTS,
        source="node(1), --max-old-space-size",
    ),
    # By itself the heap doubles before it is collected, whatever the limit is.
    _heap(
        "go-memory-limit",
        "Go collects before the heap comes to the limit",
        "Go",
        _is_go,
        "GOMEMLIMIT",
        lambda limit: f"{int(0.9 * limit) // MIB}MiB",
        costs=_COLLECTS,
        source="Go's runtime package, GOMEMLIMIT",
    ),
)
