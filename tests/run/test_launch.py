"""How a workload is started: what other users can read of it, and what must be there."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgebench.run.trial.launch import KINDS, GoneError, launch
from edgebench.workloads.recorder import NO_DESCRIPTORS


@pytest.mark.promise("A scenario's variables are on no command line, which all users can read.")
@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"function"}))
def test_variables_are_on_no_command_line(kind: str) -> None:
    """The process gets them as variables, which its own user alone can read."""
    settings = {"kind": kind, "command": ["true"], "networks": ["lenet"], "env": {"TOKEN": "s3cr"}}
    start = launch(settings, NO_DESCRIPTORS)
    assert start.env == {"TOKEN": "s3cr"}
    assert not any("s3cr" in word or "TOKEN" in word for word in start.argv)


def test_a_file_that_is_gone_fails_the_trial_in_words(tmp_path: Path) -> None:
    settings = {"kind": "command", "command": ["true"], "files": [str(tmp_path / "gone")]}
    with pytest.raises(GoneError, match="is gone"):
        launch(settings, NO_DESCRIPTORS)
