"""What the kernel is told of mapped weights at the borders of layers (madvise(2))."""

from __future__ import annotations

from edgebench.layers.names import CUDA
from edgebench.remedies.base import REWRITE, Remedy, RemedySetting, RemedyTarget, registered_remedy
from edgebench.workloads.engines.registry import TORCH

_MAPPED = "mmap"


class _AdvisedPages(Remedy):
    """One piece of advice; each is for weights that stay mapped from one layer to the next."""

    group = "weights"
    effort = REWRITE
    advice: str
    line: str

    def unfit(self, target: RemedyTarget) -> str | None:
        """Only of networks whose files edgebench maps layer by layer, all before the first."""
        if target.kind != "inference" or target.runtime != TORCH:
            return "edgebench does not map its weights layer by layer"
        if target.settings.get("schedule") != "bulk":
            return "its schedule gives weights back, or advises the kernel itself"
        if target.settings.get("accelerator") == CUDA:
            return "its weights are copied to the accelerator"
        if target.settings.get("precision"):
            return "its weights are converted, so they are in no file"
        return "the kernel is advised already" if target.settings.get("page_advice") else None

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The settings ``page_advice`` and, as weights have to be mapped, ``loader``."""
        mapped = target.settings.get("loader") == _MAPPED
        loader = {} if mapped else {"loader": _MAPPED}
        return RemedySetting(settings={"page_advice": self.advice, **loader}, code=(self.line,))


@registered_remedy
class SequentialPages(_AdvisedPages):
    """More is read at once, and what was read is dropped sooner."""

    name = "sequential-weights"
    title = "maps the weights, and tells the kernel that they are read in order"
    costs = "more is read ahead than may be used"
    source = "madvise(2), MADV_SEQUENTIAL"
    advice = "sequential"
    line = "weights.madvise(mmap.MADV_SEQUENTIAL)   # an mmap.mmap of the file"


@registered_remedy
class NextLayersPages(_AdvisedPages):
    """Storage works while the processor does."""

    name = "next-layer-ahead"
    title = "maps the weights, and has the next layer's read while this one runs"
    costs = "next to nothing: a system call for each layer"
    source = "madvise(2), MADV_WILLNEED"
    advice = "willneed"
    line = "weights.madvise(mmap.MADV_WILLNEED, start, length)   # of the next layer, before this"


@registered_remedy
class ColdPages(_AdvisedPages):
    """Of what is used again and again in the same order, the last used is needed last."""

    name = "cold-behind"
    title = "maps the weights, and has the kernel evict those that were just used first"
    costs = "next to nothing: a system call for each layer"
    source = "madvise(2), MADV_COLD"
    advice = "cold"
    line = "libc.madvise(start, length, 20)   # MADV_COLD, of a layer's weights, after it"


@registered_remedy
class DroppedPages(_AdvisedPages):
    """What the layer needed is free for activations and the runtime."""

    name = "pageout-behind"
    title = "maps the weights, and has the kernel drop each layer's as soon as it has run"
    costs = "all weights are read again in each pass, even where they would fit"
    source = "madvise(2), MADV_PAGEOUT"
    advice = "pageout"
    line = "libc.madvise(start, length, 21)   # MADV_PAGEOUT, of a layer's weights, after it"
