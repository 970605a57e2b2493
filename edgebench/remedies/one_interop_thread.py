"""One thread for operators that run beside each other."""

from __future__ import annotations

from edgebench.remedies.base import LINE, Remedy, RemedySetting, RemedyTarget, registered_remedy
from edgebench.workloads.engines.registry import TORCH


@registered_remedy
class OneInteropThread(Remedy):
    """PyTorch has a second pool of threads, as many as cores, for what a program forks."""

    name = "one-interop-thread"
    group = "runtime"
    title = "runs one operator at a time, so that there is one stack and one scratch memory"
    costs = "nothing, unless the network itself forks tasks (torch.jit.fork)"
    source = "torch.set_num_interop_threads"
    effort = LINE

    def unfit(self, target: RemedyTarget) -> str | None:
        """PyTorch alone has such a pool, which on one core has one thread."""
        if target.kind == "command":
            return "edgebench can't set it in a program"
        if target.runtime != TORCH:
            return f"{target.runtime} has no such threads"
        if target.cores == 1:
            return "it has one thread already"
        return "it is chosen already" if target.settings.get("interop_threads") else None

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The setting ``interop_threads``."""
        line = "torch.set_num_interop_threads(1)   # before the first operator"
        return RemedySetting(settings={"interop_threads": 1}, code=(line,))
