"""docs/studies/index.md: on which machines the kept sweeps ran."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from claims.kept import DEVICE
from claims.texts import Claim, says

PAGE = "docs/studies/index.md"


def claims() -> Iterator[Claim]:
    """Builds of the kernel, and how many sweeps ran under each."""
    files = DEVICE.glob("*/environment.json")
    sweeps = Counter(json.loads(file.read_text())["cpu_model"].split("(")[0] for file in files)
    assert {*sweeps} == {"AMD EPYC", "Intel"}
    yield says(
        "Linux 6.18, {} sweeps with an AMD EPYC and {} with an Intel Xeon",
        *(sweeps["AMD EPYC"], sweeps["Intel"]),
    )
