"""Nothing planted in a results folder hangs who reads it, or is read for who planted it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgebench.cli.verbs import VERBS
from tests.trust.tried_verbs import READERS, SWEEPS, WRITERS
from tests.trust.unreadable import BODIES

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.root
#: Every third case of each verb, of some 160. 1 is each plant at each path.
_STEP = int(os.environ.get("EDGEBENCH_PLANT_STEP", "3"))
#: Verbs that read neither results nor a scenario of somebody else's.
_NO_READERS = {"boards", "calibrate", "data", "doctor", "init", "measure", "serve", *SWEEPS}


def planted(name: str, at_most: int = 10**9, step: int = 1) -> dict[str, Any]:
    """What the plants did to one verb."""
    words = [name, str(at_most), str(step)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.trust.unreadable", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.long
@pytest.mark.process
@pytest.mark.timeout(3600)
@pytest.mark.promise(
    "A FIFO, device, socket, link, folder or endless file in a results folder hangs no verb, and "
    "root follows no link there that its maker may not follow."
)
@pytest.mark.parametrize("name", BODIES)
def test_no_plant_hangs_or_is_followed(name: str) -> None:
    """Whatever lies at whichever name, the verb ends in words and tells nothing of root's."""
    found = planted(name, step=_STEP)
    assert found["wrong"] == []
    assert found["tried"] > 40 // _STEP


@pytest.mark.quick
@pytest.mark.process
def test_some_plants_hang_nothing() -> None:
    """The same for a few paths and plants."""
    found = planted("show", 7)
    assert found["wrong"] == []
    assert found["tried"] > 4


def test_every_verb_that_reads_is_tried() -> None:
    """No verb is forgotten."""
    assert set(VERBS) - _NO_READERS <= set(BODIES)
    assert set(BODIES) <= {*WRITERS, *READERS, "page", "running"}
