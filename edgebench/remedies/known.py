"""The remedies that edgebench knows: of any process, and of its own networks.

A new remedy is an entry in :data:`REMEDIES`, or an entry point of another package.
"""

from __future__ import annotations

import platform
from ctypes.util import find_library
from functools import cache

from edgebench import plugins
from edgebench.layers.names import ADMISSION, CUDA, GENERATE, INT8, STREAM, TORCH
from edgebench.measures.machine.system_files import SystemFiles, UnreadableError
from edgebench.remedies import (
    LINE,
    REWRITE,
    Check,
    Remedy,
    RemedySetting,
    RemedyTarget,
    first_reason,
    only,
    refuse,
    refuse_set,
    with_keys,
)
from edgebench.workloads.engines.engine import engine_of
from edgebench.workloads.recorder import FROZEN
from edgebench.workloads.training.names import LAST, WHOLE

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
        taken = next((name for name in variables if name in target.environment), None)
        return f"{taken} is set already" if taken else None

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


#: Accumulation cuts a batch into the first of these numbers of parts that divides it.
_PARTS = (4, 3, 2)
_MAPPED, _COPIED = "mmap", "copy"
_READ_AGAIN = "weights are read from storage in every pass, even where they would fit"
_NO_INSTRUCTIONS = "slower on a processor without instructions for it"


def _has_loader(loader: str) -> Check:
    def check(target: RemedyTarget) -> str | None:
        if loader in engine_of(target.settings.get("engine")).loaders:
            return None
        return f"{target.runtime} has no loader {loader}"

    return first_reason(only("inference"), check)


#: Weights in another precision are copied: files are larger.
_converts = first_reason(
    only("inference", TORCH),
    refuse_set("the schedule stream reads weights as they are in their files", "schedule", STREAM),
    refuse_set("a precision is chosen already", "precision"),
)
_by_layer = first_reason(
    only("inference", TORCH),
    refuse_set("it makes one token after the other of the same weights", "schedule", GENERATE),
)


def _order(name: str, schedule: str, line: str, *, title: str, source: str) -> Remedy:
    """Load weights anew for each execution, which a round has one of."""

    def setting(target: RemedyTarget) -> RemedySetting:
        executions = target.executions
        settings = {"schedule": schedule, **({"warm": 0} if executions > 1 else {})}
        return RemedySetting(settings=settings, code=(line,), work=1 / executions)

    same = refuse_set("it does so already", "schedule", schedule)
    return Remedy(
        name,
        title,
        costs=_READ_AGAIN,
        source=source,
        unfit=first_reason(_by_layer, same),
        setting=setting,
        effort=REWRITE,
    )


def _parts(target: RemedyTarget) -> int:
    """Return the parts of a batch in all; 0: no further cut is possible."""
    now = int(target.settings.get("accumulation") or 1)
    size = int(target.settings["batch"]) // now
    return next((now * parts for parts in _PARTS if size >= parts and size % parts == 0), 0)


def _accumulation(target: RemedyTarget) -> RemedySetting:
    parts = _parts(target)
    line = f"backward for each of {parts} parts of the batch, then one optimizer.step()"
    return RemedySetting(settings={"accumulation": parts}, code=(line,))


def _half_batch(target: RemedyTarget) -> RemedySetting:
    """Compare the time of as many examples: two steps of it with one without."""
    half = int(target.settings["batch"]) // 2
    return RemedySetting(settings={"batch": half}, code=(f"batch_size={half}",), work=0.5)


REMEDIES = (
    # How a process allocates memory and computes.
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
    # How weights are held and ordered, and how networks are trained.
    # Clean pages of a file are dropped where others have to be written to swap first.
    Remedy(
        "mapped-weights",
        "weights are mapped from their file, so nothing of them is written to swap",
        costs="each first touch of a page is a fault",
        source="mmap(2); torch.load, mmap",
        unfit=_has_loader(_MAPPED),
        setting=with_keys(
            'weights = torch.load("weights.pt", mmap=True)   # then load_state_dict(assign=True)',
            loader=_MAPPED,
        ),
        effort=LINE,
        promise=2,
    ),
    # Swap may be read in larger pieces than a mapped file.
    Remedy(
        "copied-weights",
        "weights are read into memory, from where they go to swap",
        costs="weights that have to leave memory are written first",
        source="torch.load, mmap",
        unfit=_has_loader(_COPIED),
        setting=with_keys('weights = torch.load("weights.pt", mmap=False)', loader=_COPIED),
        effort=LINE,
    ),
    # The range of float32 with fewer digits.
    Remedy(
        "bfloat16-weights",
        "holds weights and activations in bfloat16: half the memory",
        costs=_NO_INSTRUCTIONS,
        source="torch.nn.Module.bfloat16",
        changes="outputs: about three digits are left of each value",
        lossy=True,
        tolerance=0.1,
        unfit=_converts,
        setting=with_keys(
            "network.to(torch.bfloat16)   # the input too", precision="bfloat16", loader=_COPIED
        ),
        effort=LINE,
    ),
    # Dynamic quantisation: no data are needed to calibrate it. Convolutions stay as they are.
    Remedy(
        "int8-weights",
        "holds the weights of linear layers in integers of one byte: a quarter of the memory",
        costs="activations are converted in each execution",
        source="PyTorch's dynamic quantisation, torch.ao.quantization.quantize_dynamic",
        changes="outputs: about two digits are left of each value",
        lossy=True,
        tolerance=0.1,
        unfit=first_reason(
            refuse_set("it is computed on the accelerator", "accelerator", CUDA), _converts
        ),
        setting=with_keys(
            "torch.ao.quantization.quantize_dynamic(network, {torch.nn.Linear})",
            precision=INT8,
            loader=_COPIED,
        ),
        effort=LINE,
    ),
    # The least memory: one layer's weights.
    _order(
        "layer-by-layer",
        "linear",
        "for each layer: load its weights, run it, delete them",
        title="loads a layer, executes it and frees it before the next one",
        source="edgebench's schedule linear; accelerate's cpu_offload does the same",
    ),
    # Loading runs ahead of execution as far as the limit lets it.
    _order(
        "load-what-fits",
        ADMISSION,
        "in a second thread: load the next layers' weights while they fit beside this one",
        title="loads layers ahead while the limit has room, and frees each after its execution",
        source="edgebench's schedule admission",
    ),
    # A network that is executed again and again reads all weights each time if some don't fit.
    Remedy(
        "stream",
        "maps the weights, locks as many as fit, and reads only the others in each pass",
        costs="next to nothing where all weights fit; "
        "to lock memory needs root, or ulimit -l raised",
        source="edgebench's schedule stream; mlock(2); madvise(2); Belady (1966)",
        unfit=first_reason(
            _by_layer,
            refuse(
                "it uses its weights once each time they are loaded",
                lambda target: target.executions == 1,
            ),
            refuse_set("it does so already", "schedule", STREAM),
        ),
        setting=with_keys(
            "mlock the first layers' mapped weights; read each later layer's just before it runs",
            schedule=STREAM,
            loader=_MAPPED,
        ),
        effort=REWRITE,
        promise=3,
    ),
    # Only the activations of one part are held at a time.
    Remedy(
        "accumulation",
        "trains on a batch in parts, and adds up their gradients",
        costs="smaller parts use cores and caches less well",
        source="PyTorch's automatic mixed precision examples, gradient accumulation",
        changes="batch normalisation, which sees each part alone; the last digits of gradients",
        unfit=first_reason(
            only("training"),
            refuse_set("a compiled step trains on its batch as a whole", "compiled"),
            refuse("its batch can't be cut into equal parts", lambda target: not _parts(target)),
        ),
        setting=_accumulation,
        effort=REWRITE,
    ),
    Remedy(
        "half-batch",
        "trains on half a batch in each step",
        costs="twice as many updates for the same examples",
        source="docs/studies/cnn-batch.md",
        changes="what is learnt: twice as many steps, each on noisier gradients",
        lossy=True,
        unfit=first_reason(
            only("training"),
            # Accumulation must divide the half, too.
            refuse(
                "its batch is not even",
                lambda target: (
                    int(target.settings["batch"])
                    % (2 * int(target.settings.get("accumulation") or 1))
                ),
            ),
        ),
        setting=_half_batch,
        effort=REWRITE,
    ),
    # Parameters, gradients, the optimizer's state and activations take half the memory.
    Remedy(
        "bfloat16",
        "trains in bfloat16: all tensors are half as large",
        costs=_NO_INSTRUCTIONS,
        source="torch.nn.Module.bfloat16",
        changes="results: about three digits are left of each value",
        lossy=True,
        unfit=only("training", TORCH),
        setting=with_keys(
            "network.to(torch.bfloat16)   # before the optimizer is made; the images too",
            precision="bfloat16",
        ),
        effort=REWRITE,
    ),
    # Only the input of each block is kept until the backward pass.
    Remedy(
        "checkpointing",
        "drops activations, and computes them again in the backward pass",
        costs="about a third more time where memory is no limit: a second forward pass",
        source="Chen et al., Training Deep Nets with Sublinear Memory Cost (2016)",
        changes="running averages of batch normalisation, which see each batch twice",
        unfit=only("training", TORCH),
        setting=with_keys(
            "x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)",
            checkpointing=True,
        ),
        effort=REWRITE,
    ),
    # For networks that were trained before, on other data.
    Remedy(
        "last-layer",
        "trains the last layer alone: no gradients, state or activations of the others",
        costs="nothing: a step is faster; but the network learns less",
        source="Yosinski et al., How transferable are features in deep neural networks? (2014)",
        changes="what is learnt: all layers but the last stay as they are",
        lossy=True,
        unfit=first_reason(
            only("training", TORCH),
            refuse(
                "a part alone is trained already",
                lambda target: target.settings["trained"] != WHOLE,
            ),
        ),
        setting=with_keys(
            "network.requires_grad_(False); network.fc.requires_grad_(True)", trained=LAST
        ),
        effort=REWRITE,
    ),
    # Adam keeps two numbers for each parameter, the others one.
    Remedy(
        "sgd",
        "updates parameters by plain gradient descent, which keeps no state",
        costs="more steps to the same accuracy, as a rule; it needs another learning rate",
        source="Kingma and Ba, Adam: A Method for Stochastic Optimization (2015); torch.optim.SGD",
        changes="what is learnt: another optimizer, whose learning rate has to be chosen anew",
        lossy=True,
        unfit=only("training"),
        setting=with_keys(
            "optimizer = torch.optim.SGD(network.parameters(), lr=…)", optimizer="sgd"
        ),
        effort=REWRITE,
    ),
)


def all_remedies() -> list[Remedy]:
    """Return every remedy; those that are easiest to set come first.

    Raises:
        MachineError: one of another package can't be imported.
    """
    added = [plugins.load(entry) for entry in plugins.added(plugins.REMEDIES).values()]
    return sorted([*REMEDIES, *added], key=lambda remedy: (remedy.effort, remedy.name))
