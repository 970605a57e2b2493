"""ONNX Runtime without its arena."""

from __future__ import annotations

from edgebench.remedies.base import LINE, Remedy, RemedySetting, RemedyTarget, registered_remedy


@registered_remedy
class OnnxArena(Remedy):
    """The arena grows in powers of two, and keeps what it has."""

    name = "no-onnx-arena"
    group = "allocator"
    title = "ONNX Runtime allocates each tensor by itself"
    costs = "more calls of the allocator: slower where memory is no limit"
    source = "ONNX Runtime's SessionOptions.enable_cpu_mem_arena"
    effort = LINE

    def unfit(self, target: RemedyTarget) -> str | None:
        """Only ONNX Runtime has it."""
        if target.runtime != "onnxruntime":
            return "it does not run in ONNX Runtime"
        return None if target.settings.get("arena", True) else "it has no arena already"

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The setting ``arena``."""
        line = "session_options.enable_cpu_mem_arena = False"
        return RemedySetting(settings={"arena": False}, code=(line,))
