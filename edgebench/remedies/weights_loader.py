"""Weights mapped from their file, or copied into memory: whichever it is not."""

from __future__ import annotations

from edgebench.remedies.base import LINE, Remedy, RemedySetting, RemedyTarget, registered_remedy
from edgebench.workloads.engines.registry import engine_of

_MAPPED, _COPIED = "mmap", "copy"


class _OtherLoader(Remedy):
    """A loader in place of another one."""

    group = "weights"
    effort = LINE
    loader: str
    line: str

    def unfit(self, target: RemedyTarget) -> str | None:
        """Only inference loads weights from files, and some engines have one way alone."""
        if target.kind != "inference":
            return "edgebench loads no weights for it"
        if self.loader not in engine_of(target.settings.get("engine")).loaders:
            return f"{target.runtime} has no loader {self.loader}"
        return "it does so already" if target.settings.get("loader") == self.loader else None

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The setting ``loader``."""
        return RemedySetting(settings={"loader": self.loader}, code=(self.line,))


@registered_remedy
class MappedWeights(_OtherLoader):
    """Clean pages of a file are dropped where others have to be written to swap first."""

    name = "mapped-weights"
    title = "weights are mapped from their file, so nothing of them is written to swap"
    costs = "each first touch of a page is a fault"
    source = "mmap(2); torch.load, mmap"
    promise = 2
    loader = _MAPPED
    line = 'weights = torch.load("weights.pt", mmap=True)   # then load_state_dict(assign=True)'


@registered_remedy
class CopiedWeights(_OtherLoader):
    """Swap may be read in larger pieces than a mapped file."""

    name = "copied-weights"
    title = "weights are read into memory, from where they go to swap"
    costs = "weights that have to leave memory are written first"
    source = "torch.load, mmap"
    loader = _COPIED
    line = 'weights = torch.load("weights.pt", mmap=False)'
