"""docs/how-to/accelerators.md."""

from __future__ import annotations

from collections.abc import Iterator

from claims.edgecaffe import layer_bytes
from claims.kept import MIB, figures, rows
from claims.texts import Claim, says, table

PAGE = "docs/how-to/accelerators.md"


def claims() -> Iterator[Claim]:
    """What two networks took of a real GPU, and the least limits at which they ran."""
    yield table("## What a network takes of it", rows("accelerator_memory"))
    least = {
        row["network"]: min(int(k[:-1]) for k, ends in row["outcomes"].items() if ends == ["ok"])
        for row in figures("accelerator_memory")
        if row["schedule"] == "linear"
    }
    yield says("ResNet-18 runs in {} MiB", least["resnet18"])
    yield says(
        "AlexNet in {} MiB, of which its largest layer alone takes {} MiB",
        least["alexnet"],
        _largest_mib(),
    )


def _largest_mib() -> str:
    return f"{layer_bytes('classifier.1') / MIB:.0f}"
