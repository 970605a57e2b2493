"""ONNX Runtime without one block for all activations."""

from __future__ import annotations

from edgebench.remedies.base import LINE, Remedy, RemedySetting, RemedyTarget, registered_remedy


@registered_remedy
class OnnxPattern(Remedy):
    """After the first execution one block of the largest size is kept for all activations."""

    name = "no-onnx-pattern"
    group = "runtime"
    title = "ONNX Runtime keeps no block that holds all activations"
    costs = "more calls of the allocator: slower where memory is no limit"
    source = "ONNX Runtime's SessionOptions.enable_mem_pattern"
    effort = LINE

    def unfit(self, target: RemedyTarget) -> str | None:
        """Only ONNX Runtime has it."""
        if target.runtime != "onnxruntime":
            return "it does not run in ONNX Runtime"
        return None if target.settings.get("memory_pattern", True) else "it has none already"

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The setting ``memory_pattern``."""
        line = "session_options.enable_mem_pattern = False"
        return RemedySetting(settings={"memory_pattern": False}, code=(line,))
