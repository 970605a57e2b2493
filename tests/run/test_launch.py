"""What other users can read of a workload's start."""

from __future__ import annotations

import pytest

from edgebench.measures.view import Descriptors
from edgebench.run.trial.launch import KINDS, launch

_DESCRIPTORS: Descriptors = {
    "events": 3,
    "usage": None,
    "peak": None,
    "peak_resets": False,
    "swap": None,
    "swap_is_memsw": False,
    "stat": None,
    "kernel": None,
    "control": None,
    "records": None,
    "swap_io": None,
    "swap_kind": "",
}


@pytest.mark.promise("A scenario's variables are on no command line, which all users can read.")
@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"function"}))
def test_variables_are_on_no_command_line(kind: str) -> None:
    """The process gets them as variables, which its own user alone can read."""
    settings = {"kind": kind, "command": ["true"], "networks": ["lenet"], "env": {"TOKEN": "s3cr"}}
    start = launch(settings, _DESCRIPTORS)
    assert start.env == {"TOKEN": "s3cr"}
    assert not any("s3cr" in word or "TOKEN" in word for word in start.argv)
