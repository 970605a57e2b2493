"""`edgebench data`: what is there, what is corrupt, and what it takes to get the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from data_making import write_mnist

from edgebench.cli import cli
from edgebench.errors import UsageError
from edgebench.workloads.training.names import DATA_SETS


def data(*words: str) -> Result:
    return CliRunner().invoke(cli, ["data", *words])


def test_all_are_listed_with_what_to_type(tmp_path: Path):
    shown = data("--folder", str(tmp_path))
    assert shown.exit_code == 0
    assert all(name in shown.output for name in DATA_SETS)
    assert "edgebench data mnist --download" in shown.output


@pytest.mark.torch
def test_files_that_are_there_are_seen(tmp_path: Path):
    """JSON says so, and a name alone is read whole."""
    write_mnist(tmp_path)
    told = json.loads(data("--folder", str(tmp_path), "--json").output)
    states = {row["name"]: row["state"] for row in told["data_sets"]}
    assert states["mnist"] == "downloaded"
    words = " ".join(data("mnist", "--folder", str(tmp_path)).output.split())
    assert "12 training and 4 test images of 1x28x28, in 10 classes" in words


@pytest.mark.parametrize("words", [("--download",), ("digits", "--download")])
def test_only_sets_of_files_are_fetched(words: tuple[str, ...]):
    with pytest.raises(UsageError, match="can be downloaded"):
        CliRunner().invoke(cli, ["data", *words], catch_exceptions=False)
