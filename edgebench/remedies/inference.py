"""Remedies of edgebench's inference: how weights are held, in which order layers are loaded."""

from __future__ import annotations

from collections.abc import Callable

from edgebench.layers.names import ADMISSION, CUDA, GENERATE, INT8, STREAM
from edgebench.remedies.base import (
    LINE,
    REWRITE,
    Remedy,
    RemedySetting,
    RemedyTarget,
    with_settings,
)
from edgebench.workloads.engines.engine import TORCH, engine_of

_MAPPED, _COPIED = "mmap", "copy"
_LINEAR = "linear"
_ALREADY = "it does so already"
_READ_AGAIN = "weights are read from storage in every pass, even where they would fit"
_NO_INSTRUCTIONS = "slower on a processor without instructions for it"
_NEXT_TO_NOTHING = "next to nothing: a system call for each layer"


def _not_loaded_so(loader: str) -> Callable[[RemedyTarget], str | None]:
    """Only inference loads weights from files, and some engines have a single loader."""

    def unfit(target: RemedyTarget) -> str | None:
        if target.kind != "inference":
            return "edgebench loads no weights for it"
        if loader not in engine_of(target.settings.get("engine")).loaders:
            return f"{target.runtime} has no loader {loader}"
        return _ALREADY if target.settings.get("loader") == loader else None

    return unfit


def _not_converted(target: RemedyTarget) -> str | None:
    """Only PyTorch converts weights; files stay as they are, and are read as a whole."""
    if target.kind != "inference" or target.runtime != TORCH:
        return "it is no inference in PyTorch"
    if target.settings.get("schedule") == STREAM:
        return "the schedule stream reads weights as they are in their files"
    return "a precision is chosen already" if target.settings.get("precision") else None


def _not_int8(target: RemedyTarget) -> str | None:
    """Only the processor computes products of integers here."""
    if target.settings.get("accelerator") == CUDA:
        return "it is computed on the accelerator"
    return _not_converted(target)


def _not_advised(target: RemedyTarget) -> str | None:
    """Only weights that edgebench maps layer by layer and that stay mapped can be advised on."""
    if target.kind != "inference" or target.runtime != TORCH:
        return "edgebench does not map its weights layer by layer"
    if target.settings.get("schedule") != "bulk":
        return "its schedule gives weights back, or advises the kernel itself"
    if target.settings.get("accelerator") == CUDA:
        return "its weights are copied to the accelerator"
    if target.settings.get("precision"):
        return "its weights are converted, so they are in no file"
    return "the kernel is advised already" if target.settings.get("page_advice") else None


def _not_ordered_so(schedule: str) -> Callable[[RemedyTarget], str | None]:
    """Only a network that is loaded layer by layer can change its order."""

    def unfit(target: RemedyTarget) -> str | None:
        if target.kind != "inference":
            return "edgebench does not order its layers"
        used = target.settings.get("schedule")
        if used == GENERATE:
            return "it makes one token after the other of the same weights"
        if target.runtime != TORCH:
            return f"{target.runtime} loads it as a whole"
        return _ALREADY if used == schedule else None

    return unfit


def _ordered_so(schedule: str, line: str) -> Callable[[RemedyTarget], RemedySetting]:
    """Return a remedy: a schedule that loads weights anew for each execution (one a round)."""

    def setting(target: RemedyTarget) -> RemedySetting:
        executions = target.executions
        settings = {"schedule": schedule, **({"warm": 0} if executions > 1 else {})}
        return RemedySetting(settings=settings, code=(line,), work=1 / executions)

    return setting


def _not_streamed(target: RemedyTarget) -> str | None:
    """Only where weights are used again before they are loaded again."""
    if target.kind != "inference":
        return "edgebench does not order its layers"
    used = target.settings.get("schedule")
    if target.runtime != TORCH or used == GENERATE:
        return "edgebench does not load its weights layer by layer"
    if target.executions == 1:
        return "it uses its weights once each time they are loaded"
    return _ALREADY if used == STREAM else None


REMEDIES = (
    # Clean pages of a file are dropped where others have to be written to swap first.
    Remedy(
        name="mapped-weights",
        group="weights",
        title="weights are mapped from their file, so nothing of them is written to swap",
        costs="each first touch of a page is a fault",
        source="mmap(2); torch.load, mmap",
        unfit=_not_loaded_so(_MAPPED),
        setting=with_settings(
            'weights = torch.load("weights.pt", mmap=True)   # then load_state_dict(assign=True)',
            loader=_MAPPED,
        ),
        effort=LINE,
        promise=2,
    ),
    # Swap may be read in larger pieces than a mapped file.
    Remedy(
        name="copied-weights",
        group="weights",
        title="weights are read into memory, from where they go to swap",
        costs="weights that have to leave memory are written first",
        source="torch.load, mmap",
        unfit=_not_loaded_so(_COPIED),
        setting=with_settings('weights = torch.load("weights.pt", mmap=False)', loader=_COPIED),
        effort=LINE,
    ),
    # The range of float32 with fewer digits. Converted weights are copied: files are larger.
    Remedy(
        name="bfloat16-weights",
        group="weights",
        title="holds weights and activations in bfloat16: half the memory",
        costs=_NO_INSTRUCTIONS,
        source="torch.nn.Module.bfloat16",
        changes="outputs: about three digits are left of each value",
        lossy=True,
        tolerance=0.1,
        unfit=_not_converted,
        setting=with_settings(
            "network.to(torch.bfloat16)   # the input too", precision="bfloat16", loader=_COPIED
        ),
        effort=LINE,
    ),
    # More digits than bfloat16, but a small range: large values become infinite.
    Remedy(
        name="float16-weights",
        group="weights",
        title="holds weights and activations in float16: half the memory",
        costs=f"much {_NO_INSTRUCTIONS}",
        source="torch.nn.Module.half",
        changes="outputs: about four digits are left of each value",
        lossy=True,
        tolerance=0.02,
        unfit=_not_converted,
        setting=with_settings(
            "network.to(torch.float16)   # the input too", precision="float16", loader=_COPIED
        ),
        effort=LINE,
    ),
    # Dynamic quantisation: no data are needed to calibrate it. Convolutions stay as they are.
    Remedy(
        name="int8-weights",
        group="weights",
        title="holds the weights of linear layers in integers of one byte: a quarter of the memory",
        costs="activations are converted in each execution",
        source="PyTorch's dynamic quantisation, torch.ao.quantization.quantize_dynamic",
        changes="outputs: about two digits are left of each value",
        lossy=True,
        tolerance=0.1,
        unfit=_not_int8,
        setting=with_settings(
            "torch.ao.quantization.quantize_dynamic(network, {torch.nn.Linear})",
            precision=INT8,
            loader=_COPIED,
        ),
        effort=LINE,
    ),
    # More is read at once, and what was read is dropped sooner.
    Remedy(
        name="sequential-weights",
        group="weights",
        title="maps the weights, and tells the kernel that they are read in order",
        costs="more is read ahead than may be used",
        source="madvise(2), MADV_SEQUENTIAL",
        unfit=_not_advised,
        setting=with_settings(
            "weights.madvise(mmap.MADV_SEQUENTIAL)   # an mmap.mmap of the file",
            page_advice="sequential",
            loader=_MAPPED,
        ),
        effort=REWRITE,
    ),
    # Storage works while the processor does.
    Remedy(
        name="next-layer-ahead",
        group="weights",
        title="maps the weights, and has the next layer's read while this one runs",
        costs=_NEXT_TO_NOTHING,
        source="madvise(2), MADV_WILLNEED",
        unfit=_not_advised,
        setting=with_settings(
            "weights.madvise(mmap.MADV_WILLNEED, start, length)   # of the next layer, before this",
            page_advice="willneed",
            loader=_MAPPED,
        ),
        effort=REWRITE,
    ),
    # If weights are used again and again in the same order, the last used is needed last.
    Remedy(
        name="cold-behind",
        group="weights",
        title="maps the weights, and has the kernel evict those that were just used first",
        costs=_NEXT_TO_NOTHING,
        source="madvise(2), MADV_COLD",
        unfit=_not_advised,
        setting=with_settings(
            "libc.madvise(start, length, 20)   # MADV_COLD, of a layer's weights, after it",
            page_advice="cold",
            loader=_MAPPED,
        ),
        effort=REWRITE,
    ),
    # The memory of the layer that has run is free for activations and the runtime.
    Remedy(
        name="pageout-behind",
        group="weights",
        title="maps the weights, and has the kernel drop each layer's as soon as it has run",
        costs="all weights are read again in each pass, even where they would fit",
        source="madvise(2), MADV_PAGEOUT",
        unfit=_not_advised,
        setting=with_settings(
            "libc.madvise(start, length, 21)   # MADV_PAGEOUT, of a layer's weights, after it",
            page_advice="pageout",
            loader=_MAPPED,
        ),
        effort=REWRITE,
    ),
    # The least memory: one layer's weights.
    Remedy(
        name="layer-by-layer",
        group="order",
        title="loads a layer, executes it and frees it before the next one",
        costs=_READ_AGAIN,
        source="edgebench's schedule linear; accelerate's cpu_offload does the same",
        unfit=_not_ordered_so(_LINEAR),
        setting=_ordered_so(_LINEAR, "for each layer: load its weights, run it, delete them"),
        effort=REWRITE,
    ),
    # Loading runs ahead of execution as far as the limit lets it.
    Remedy(
        name="load-what-fits",
        group="order",
        title="loads layers ahead while the limit has room, and frees each after its execution",
        costs=_READ_AGAIN,
        source="edgebench's schedule admission",
        unfit=_not_ordered_so(ADMISSION),
        setting=_ordered_so(
            ADMISSION,
            "in a second thread: load the next layers' weights while they fit beside this one",
        ),
        effort=REWRITE,
    ),
    # A network that is executed again and again reads all weights each time if some don't fit.
    Remedy(
        name="stream",
        group="order",
        title="maps the weights, locks as many as fit, and reads only the others in each pass",
        costs="next to nothing where all weights fit; "
        "to lock memory needs root, or ulimit -l raised",
        source="edgebench's schedule stream; mlock(2); madvise(2); Belady (1966)",
        unfit=_not_streamed,
        setting=with_settings(
            "mlock the first layers' mapped weights; read each later layer's just before it runs",
            schedule=STREAM,
            loader=_MAPPED,
        ),
        effort=REWRITE,
        promise=3,
    ),
)
