"""Import torchvision, also beside a torch build that its compiled operators don't match."""

from __future__ import annotations

from types import ModuleType

import torch

#: Operators whose shape functions torchvision registers at import, compiled or not.
_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


def import_torchvision() -> ModuleType:
    """Torchvision's ``models``; classification networks need none of the missing operators."""
    try:
        from torchvision import models
    except RuntimeError:
        fragment = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        for schema in _SCHEMAS:
            fragment.define(schema)  # type: ignore[no-untyped-call]
        from torchvision import models
    module: ModuleType = models
    return module
