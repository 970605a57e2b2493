"""Layer tables alone: of networks by name, and of a person's own."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from layers_making import layer_rows

from edgebench.errors import MachineError, WorkloadError
from edgebench.layers.names import NETWORKS, family_of
from edgebench.layers.preparation import describe_layers
from edgebench.layers.references import parse_reference
from edgebench.workloads.preparation import describe_networks

pytestmark = pytest.mark.torch

OWN = """
    import sys
    import torch
    from torch import nn

    def make():
        return nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 222 * 222, 10))

    def picky():
        class Picky(nn.Module):
            def forward(self, x):
                return x["images"]
        return Picky()

    def broken():
        raise ValueError("no such file: weights.bin")

    def leaving():
        sys.exit("bye")

    def deep(depth):
        return nn.Sequential(*(nn.Linear(4, 4) for _ in range(depth)))

    def pair():
        class Pair(nn.Module):
            def forward(self, x, y):
                return x + y
        return Pair()

    def seven():
        return 7

    constant = 3
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module of somebody's own, in which we stand."""
    (tmp_path / "mynet.py").write_text(textwrap.dedent(OWN))
    (tmp_path / "torn.py").write_text("import a_module_that_is_not_there\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    return tmp_path


def references(named: str) -> dict[str, Any]:
    """The reference, as a request has it."""
    return {named: parse_reference(named, Path.cwd()).to_json()}


def test_a_known_network_is_described_as_it_is_prepared():
    """The same rows as the sweep's own table, with sizes of files that nobody wrote."""
    made = describe_layers({"networks": ["alexnet"]})["networks"]["alexnet"]
    assert [row["name"] for row in made["table"]] == [row.name for row in layer_rows("alexnet")]
    assert made["parameter_bytes"] == 61_100_840 * 4
    assert made["file_bytes"] == pytest.approx(made["parameter_bytes"], rel=0.001)


def test_a_network_of_ones_own(own: Path):
    """A factory that only its owner has is imported from where the person stands."""
    made = describe_networks(["mynet:make"], references=references("mynet:make"), identity=None)[
        "networks"
    ]["mynet:make"]
    assert [row["type"] for row in made["table"]] == ["Conv2d", "Flatten", "Linear"]
    assert made["parameter_bytes"] == 4 * (3 * 8 * 9 + 8 + 8 * 222 * 222 * 10 + 10)


@pytest.mark.parametrize(
    ("named", "told", "remedy"),
    [
        ("nonet:make", "no module 'nonet'", "folder that holds it"),
        ("mynet:mak", "module mynet has no 'mak'", "did you mean mynet:make?"),
        ("mynet:deep", "needs arguments: depth", "mynet:deep?depth=…"),
        ("mynet:make?depth=2", "unexpected keyword argument 'depth'", "it takes nothing"),
        ("mynet:pair", "takes several inputs: x, y", '--input "x='),
        ("mynet:constant", "is no function, but 3", "package.module:function"),
        ("mynet:seven", "made a int, no torch.nn.Module", "package.module:function"),
        ("mynet:broken", "ValueError in your own code: no such file", "import mynet"),
        ("mynet:leaving", "SystemExit in your own code: bye", "import mynet"),
        ("torn:make", "No module named 'a_module_that_is_not_there'", "import torn"),
        ("mynet:picky", "can't run on an input of (1, 3, 224, 224)", "--input"),
    ],
)
def test_what_cant_be_had_is_told(own: Path, named: str, told: str, remedy: str):
    """Whatever is wrong with somebody's own code, one sentence says what and how to mend it."""
    with pytest.raises(WorkloadError) as caught:
        describe_layers({"networks": [named], "references": references(named)})
    assert told in caught.value.what
    assert caught.value.remedy
    assert remedy in caught.value.remedy


def test_every_network_has_a_family():
    """Families are few, and none of them is one network's alone by accident of its name."""
    families = {name: family_of(name) for name in NETWORKS}
    assert len(set(families.values())) == 15
    assert families["wide_resnet50_2"] == families["resnext50_32x4d"] == "resnet"
    assert family_of("alexnet+vgg11") == "alexnet+vgg"
    assert family_of("mynet:make") == "mynet:make"


@pytest.mark.parametrize(
    ("exit_code", "says", "remedy"),
    [
        (-signal.SIGKILL, "the kernel killed the process that read it", "dmesg"),
        (-signal.SIGSEGV, "a library crashed (SIGSEGV)", "write it again"),
    ],
)
def test_a_helper_that_was_killed_is_said_in_words(
    exit_code: int, says: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network larger than the machine, or a file that crashes its library."""

    def killed(*words: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(words, exit_code, b"", b"oneDNN is on\n")

    monkeypatch.setattr("edgebench.workloads.preparation.run_as_caller", killed)
    with pytest.raises(MachineError) as refused:
        describe_networks(["alexnet"], identity=None)
    assert says in refused.value.what
    assert remedy in str(refused.value.remedy)
