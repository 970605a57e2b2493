"""ONNX Runtime without packed copies of weights."""

from __future__ import annotations

from edgebench.remedies.base import LINE, Remedy, RemedySetting, RemedyTarget, registered_remedy


@registered_remedy
class OnnxPrepacking(Remedy):
    """Packed weights are a second copy, which no file stands behind."""

    name = "no-onnx-prepacking"
    group = "weights"
    title = "ONNX Runtime keeps no packed copy of weights"
    costs = "weights are packed in each execution: slower where memory is no limit"
    source = "ONNX Runtime's session.disable_prepacking"
    changes = "the last digits: another kernel may compute a layer"
    effort = LINE

    def unfit(self, target: RemedyTarget) -> str | None:
        """Only ONNX Runtime has it."""
        if target.runtime != "onnxruntime":
            return "it does not run in ONNX Runtime"
        return None if target.settings.get("prepacking", True) else "it packs none already"

    def setting(self, target: RemedyTarget) -> RemedySetting:
        """The setting ``prepacking``."""
        line = 'session_options.add_session_config_entry("session.disable_prepacking", "1")'
        return RemedySetting(settings={"prepacking": False}, code=(line,))
