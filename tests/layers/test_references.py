"""Model references: what a text names, told without importing anything of the user's."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from edgebench.errors import UsageError
from edgebench.layers.references import ModelReference, parse_reference


def test_a_known_name_is_a_reference_without_a_path(tmp_path: Path) -> None:
    assert parse_reference("resnet18", tmp_path) == ModelReference("known", "resnet18", "resnet18")


def test_arguments_are_numbers_switches_and_text(tmp_path: Path) -> None:
    text = "pkg.models:make?depth=3&rate=0.5&wide=true&head=none&kind=small"
    found = parse_reference(text, tmp_path)
    assert (found.kind, found.target, found.name) == ("code", "pkg.models:make", text)
    assert dict(found.arguments) == {
        "depth": 3,
        "rate": 0.5,
        "wide": True,
        "head": None,
        "kind": "small",
    }


def test_parsing_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trap_network.py").write_text("raise SystemExit('imported')\n")
    parse_reference("trap_network:Net", tmp_path)
    parse_reference("trap_network.py:Net", tmp_path)
    assert "trap_network" not in sys.modules


@pytest.mark.parametrize(
    ("file", "kind"),
    [("a.pt2", "pt2"), ("a.onnx", "onnx"), ("a.TFLITE", "tflite"), ("a.keras", "keras")],
)
def test_files_are_kinds_by_their_ending(tmp_path: Path, file: str, kind: str) -> None:
    (tmp_path / file).touch()
    found = parse_reference(file, tmp_path)
    assert (found.kind, found.name, found.path) == (kind, file, str(tmp_path / file))


def zipped(file: Path, *names: str) -> Path:
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, b"")
    return file


@pytest.mark.parametrize("ending", ["pt", "pth", "PT"])
def test_torchscript_is_told_from_a_checkpoint_by_what_is_in_it(tmp_path: Path, ending: str):
    """Both have the ending ``.pt``; nothing is unpickled to tell."""
    zipped(tmp_path / f"a.{ending}", "a/data.pkl", "a/constants.pkl", "a/code/__torch__.py")
    assert parse_reference(f"a.{ending}", tmp_path).kind == "torchscript"


def test_a_function_of_a_file_is_relative_to_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "net.py").touch()
    found = parse_reference("net.py:make?depth=2", tmp_path)
    assert (found.path, found.target) == (str(tmp_path / "net.py"), "make")
    assert (found.name, found.folder) == ("net.py:make?depth=2", str(tmp_path))


def test_a_config_of_transformers_is_called_by_its_folder(tmp_path: Path) -> None:
    (tmp_path / "small-bert").mkdir()
    (tmp_path / "small-bert" / "config.json").write_text("{}")
    for text in ("transformers:small-bert", "transformers:small-bert/config.json"):
        assert parse_reference(text, tmp_path).name == "transformers:small-bert"


def test_a_reference_survives_json(tmp_path: Path) -> None:
    found = parse_reference("pkg:make?depth=3&wide=true", tmp_path)
    assert ModelReference.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("text", "says", "remedy"),
    [
        ("resnet19", "no network 'resnet19'", "did you mean 'resnet18'?"),
        ("gone.onnx", "no file", "ls "),
        ("gone.py:make", "no file", "ls "),
        ("transformers:gone", "no file", "ls "),
        ("gone.pt", "no file", "ls "),
        ("weights.pt", "weights.pt is a checkpoint", "package.module:function"),
        ("exported.pt", "is a program of torch.export", "mv exported.pt exported.pt2"),
        ("a.gguf", "no engine of edgebench loads a.gguf", "--file a.gguf -- python3 infer.py"),
        ("w.safetensors", "holds weights and no network", "package.module:function"),
        ("my b.h5", "no engine of edgebench loads my b.h5", "minimum --file 'my b.h5' --"),
        ("saved/", "no engine of edgebench loads saved", ".tflite"),
        ("hub", "hub is a folder of transformers", "transformers:hub"),
        ("folder.onnx", "folder.onnx is no file", "ls -l"),
        ("net.py", "'net.py' names no function", "net.py:Net"),
        ("pkg:", "names no function", "pkg:make_network"),
        ("a b:make", "is no module's name", "package.module:function"),
        ("pkg:make?3", "'3' are no arguments", "name=value"),
        ("transformers:", "names no network", "transformers:FOLDER"),
        ("", "no network ''", "package.module:function"),
    ],
)
def test_what_names_nothing_is_answered_with_what_to_write(
    tmp_path: Path, text: str, says: str, remedy: str
) -> None:
    (tmp_path / "folder.onnx").mkdir()
    for folder, file in (("saved", "saved_model.pb"), ("hub", "config.json")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).touch()
    zipped(tmp_path / "weights.pt", "weights/data.pkl", "weights/data/0")
    zipped(tmp_path / "exported.pt", "net/archive_format", "net/models/model.json")
    with pytest.raises(UsageError, match=says) as refused:
        parse_reference(text, tmp_path)
    assert remedy in str(refused.value.remedy)
