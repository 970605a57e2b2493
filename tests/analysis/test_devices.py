"""Several devices compared: paired by limit, seconds as written."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from made_sweep import Shape, make

from edgebench.analysis.compare import device_rows
from edgebench.cli import cli
from edgebench.errors import UsageError
from edgebench.results.results import load

#: The second one needs more, so it is slowed more at the same limits.
SHAPES = {"fast": Shape(noise=0.0), "slow": Shape(noise=0.0, a=6.0), "third": Shape(noise=0.0)}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("devices") / "results"
    for device, shape in SHAPES.items():
        make(folder, shape, device)
    return folder


def test_rows_pair_devices_by_limit(root: Path):
    rows = device_rows(sorted(load(root).sweeps, key=lambda sweep: sweep.device))
    assert [row.limit_label for row in rows] == ["max", "150M", "100M", "75M", "50M"]
    for row in rows:
        assert [point.device for point in row.points] == list(SHAPES)
    fast, slow, third = (point.slowdown for point in rows[-1].points)
    assert fast == third < (slow or 0)


def test_one_device_alone_is_no_comparison(root: Path):
    with pytest.raises(UsageError, match="of one device"):
        device_rows(load(root / "fast").sweeps)


def test_the_verb_has_every_device_in_json(root: Path):
    done = CliRunner().invoke(cli, ["compare", "--devices", str(root), "--json"])
    data = json.loads(done.stdout)
    assert set(data["sweeps"]) == set(SHAPES)
    assert [len(row["points"]) for row in data["rows"]] == [3] * 5


def test_two_sweeps_are_still_asked_for(root: Path):
    for paths in ([str(root)], [str(root)] * 3):
        done = CliRunner().invoke(cli, ["compare", *paths])
        assert isinstance(done.exception, UsageError)


def test_a_newer_sweep_of_one_device_hides_no_comparison(root: Path, tmp_path: Path):
    folder = tmp_path / "results"
    shutil.copytree(root, folder)
    newer = make(folder, Shape(), "rack")
    resolved = json.loads((newer / "resolved.json").read_text())
    (newer / "resolved.json").write_text(json.dumps({**resolved, "scenario": {"name": "shared"}}))
    newer.rename(newer.with_name(f"9{newer.name}"))
    done = CliRunner().invoke(cli, ["compare", "--devices", str(folder)])
    assert done.exit_code == 0, done.output
    assert len(re.findall(r"^\w+: \S+$", done.stdout, re.MULTILINE)) == 3
