"""A ``.pt2`` file runs nothing when it is read; programs that PyTorch wrote are read as before."""

from __future__ import annotations

import io
import json
import pickle
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from edgebench.errors import WorkloadError
from edgebench.layers.exported_names import ForbiddenNameError, check_operator
from edgebench.layers.exported_program import read_program
from edgebench.layers.known_networks import register_torchvision
from edgebench.layers.references import parse_reference
from edgebench.layers.sources import network_source

pytestmark = pytest.mark.torch

MODEL = "models/model.json"
SAMPLE = "data/sample_inputs/model.pt"
WEIGHTS = "data/weights/model_weights_config.json"
Change = Callable[[dict[str, bytes]], None]


class Small(torch.nn.Module):
    """Convolution, batch norm, sizes that depend on the input, and named outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.head = torch.nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Pixels to scores."""
        seen = self.norm(self.convolution(x))
        mean = seen.view(seen.shape[0], 4, -1).mean(-1)
        with torch.no_grad():
            alike = torch.einsum("ij,kj->ik", mean, mean)
        return {"scores": self.head(mean), "alike": alike}


class Runs:
    """An object that creates a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return open, (str(self.file), "w")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small program with a size that varies, as a file."""
    file = tmp_path_factory.mktemp("exported") / "small.pt2"
    sizes = {"x": {0: torch.export.Dim("batch", min=2, max=64)}}
    made = torch.export.export(Small().eval(), (torch.rand(4, 3, 8, 8),), dynamic_shapes=sizes)
    torch.export.save(made, file)
    return file.read_bytes()


@pytest.fixture
def file(program: bytes, tmp_path: Path) -> Path:
    """The small program, to be changed."""
    (tmp_path / "small.pt2").write_bytes(program)
    return tmp_path / "small.pt2"


def network(file: Path) -> torch.nn.Module:
    """The program's modules."""
    return network_source(parse_reference(file.name, file.parent)).construct(weights=True)


def changed(file: Path, change: Change, compression: int = zipfile.ZIP_STORED) -> Path:
    """The archive with members changed."""
    with zipfile.ZipFile(file) as archive:
        names = [one.filename.split("/", 1) for one in archive.infolist()]
        members = {name: archive.read(f"{top}/{name}") for top, name in names}
    change(members)
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(f"{names[0][0]}/{name}", data)
    return file


def replace(member: str, old: str, new: str) -> Change:
    """Another text in a member, wherever it stands."""

    def change(members: dict[str, bytes]) -> None:
        assert old.encode() in members[member]
        members[member] = members[member].replace(old.encode(), new.encode())

    return change


def add(name: str, data: bytes = b"") -> Change:
    """One more member."""
    return lambda members: members.update({name: data})


def pickled_weight(members: dict[str, bytes]) -> None:
    """The first weight is said to be pickled."""
    weights = json.loads(members[WEIGHTS])
    next(iter(weights["config"].values()))["use_pickle"] = True
    members[WEIGHTS] = json.dumps(weights).encode()


def huge_weight(members: dict[str, bytes]) -> None:
    """The first weight has a size, and no bytes."""
    weights = json.loads(members[WEIGHTS])
    first = next(iter(weights["config"].values()))
    first["tensor_meta"]["sizes"] = [{"as_int": 10**12}]
    members["data/weights/" + first["path_name"]] = b""
    members[WEIGHTS] = json.dumps(weights).encode()


def test_a_small_program_is_read(file: Path) -> None:
    """Sizes that vary, batch norm, a part without gradients, named outputs."""
    assert network(file)(torch.ones(3, 3, 8, 8))["scores"].shape == (3, 5)


def test_a_network_of_torchvision_is_read(tmp_path: Path) -> None:
    """The outputs are those of the network that was exported."""
    register_torchvision()
    from torchvision.models import resnet18

    whole, image = resnet18().eval(), torch.rand(1, 3, 64, 64)
    torch.export.save(torch.export.export(whole, (image,)), tmp_path / "resnet.pt2")
    read = network(tmp_path / "resnet.pt2")
    with torch.inference_mode():
        assert torch.equal(read(image), whole(image))


@pytest.mark.promise("Reading a `.pt2` file runs no code that it contains.")
@pytest.mark.parametrize("kind", ["torch", "plain"])
def test_pickled_sample_inputs_are_not_run(file: Path, tmp_path: Path, kind: str) -> None:
    """PyTorch would unpickle what it can't read as tensors."""
    ran = tmp_path / "ran"
    buffer = io.BytesIO()
    torch.save(Runs(ran), buffer)
    data = buffer.getvalue() if kind == "torch" else pickle.dumps(Runs(ran))
    with pytest.raises(WorkloadError, match="sample inputs are pickled objects") as refused:
        read_program(changed(file, add(SAMPLE, data)))
    assert SAMPLE in str(refused.value.where)
    assert "package.module:function" in str(refused.value.remedy)
    assert not ran.exists()


@pytest.mark.promise("Reading a `.pt2` file runs no code that it contains.")
def test_expressions_are_not_evaluated(file: Path, tmp_path: Path) -> None:
    """The size that varies is an expression that would create a file."""
    ran = tmp_path / "ran"
    code = f"open('{ran}', 'w')".encode()

    def change(members: dict[str, bytes]) -> None:
        members[MODEL], count = re.subn(rb"Symbol\('s[^)]*\)", code, members[MODEL])
        assert count

    with pytest.raises(WorkloadError, match="is not an expression of sizes") as refused:
        read_program(changed(file, change))
    assert MODEL in str(refused.value.where)
    assert not ran.exists()


@pytest.mark.promise("Reading a `.pt2` file runs no code that it contains.")
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (pickled_weight, "is pickled"),
        (huge_weight, "more numbers than the file holds"),
        (replace(MODEL, "torch.ops.aten.linear.default", "torch.hub.load"), "no operator"),
        (
            replace(MODEL, "torch.ops.aten.linear.default", "torch.ops.aten.linear._op"),
            "no operator",
        ),
        (replace(MODEL, "aten.linear.default", "aten.linear.schemas"), "does not know"),
        (add("data/weights/model.pt"), "neither a description nor a tensor"),
        (add("data/constants/model.pt"), "neither a description nor a tensor"),
        (add("data/constants/custom_obj_0"), "neither a description nor a tensor"),
        (add("data/constants/opaque_obj_0"), "neither a description nor a tensor"),
        (add("data/aotinductor/model/a.so"), "neither a description nor a tensor"),
        (add("models/other.json"), "neither a description nor a tensor"),
        (add("serialized_example_inputs.pt"), "neither a description nor a tensor"),
    ],
)
def test_what_runs_code_or_fills_the_memory_is_refused(
    file: Path, change: Change, says: str
) -> None:
    """Before PyTorch reads the program."""
    with pytest.raises(WorkloadError, match=says) as refused:
        read_program(changed(file, change))
    assert "is not read" in refused.value.what


@pytest.mark.promise("Reading a `.pt2` file runs no code that it contains.")
def test_older_archives_are_not_unpickled(tmp_path: Path) -> None:
    """PyTorch falls back to a format whose parts are pickled."""
    ran = tmp_path / "ran"
    with zipfile.ZipFile(tmp_path / "old.pt2", "w") as archive:
        archive.writestr("version", "8.1")
        for name in ("state_dict", "constants", "example_inputs"):
            archive.writestr(f"serialized_{name}.pt", pickle.dumps(Runs(ran)))
        archive.writestr("serialized_exported_program.json", "{}")
    with pytest.raises(WorkloadError, match="can't be read as a program"):
        read_program(tmp_path / "old.pt2")
    assert not ran.exists()


@pytest.mark.promise("Reading a `.pt2` file runs no code that it contains.")
def test_compressed_archives_are_refused(file: Path) -> None:
    """Small files could fill the memory."""
    with pytest.raises(WorkloadError, match="compressed"):
        read_program(changed(file, lambda members: None, zipfile.ZIP_DEFLATED))


@pytest.mark.promise("Reading a `.pt2` file runs no code that it contains.")
def test_no_operator_that_takes_a_file_is_allowed() -> None:
    """Of all operators that this PyTorch has."""
    taking = [
        schema
        for schema in torch._C._jit_get_all_schemas()
        if any("file" in one.name and "str" in str(one.type) for one in schema.arguments)
    ]
    assert len(taking) >= 3
    for schema in taking:
        name = schema.name.replace("::", ".")
        with pytest.raises(ForbiddenNameError):
            check_operator(f"torch.ops.{name}.{schema.overload_name or 'default'}", MODEL)
