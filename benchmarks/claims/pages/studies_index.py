"""docs/studies/index.md: on which machines the kept sweeps ran."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from claims.kept import DEVICE, folder
from claims.texts import Claim, says

PAGE = "docs/studies/index.md"


def claims() -> Iterator[Claim]:
    """Builds of the kernel, and how many sweeps ran under each."""
    # The quick start is measured anew from time to time, wherever that is.
    files = sorted(
        {*DEVICE.glob("*/environment.json")} - {folder("quickstart") / "environment.json"}
    )
    machines = [json.loads(file.read_text()) for file in files]
    assert {one["cpu_model"] for one in machines} == {"AMD EPYC"}
    builds = Counter(one["kernel"] for one in machines)
    yield says(
        "an AMD EPYC and {} builds of Linux 6.18, under which {} and {} of the sweeps ran",
        *(len(builds), *sorted(builds.values(), reverse=True)),
    )
