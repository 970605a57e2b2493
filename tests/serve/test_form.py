"""The form: what it shows, and that it says what `edgebench run --dry-run` says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from serving import Served, serving

from edgebench.scenario.scenario import load_scenario
from edgebench.serve.form import FormFiles, check_form, form_tables
from edgebench.workloads.training.names import VISION_FILES

SAFE = {
    *("int", "float", "switch", "choice", "duration", "size", "limit", "swap", "name"),
    *("shape", "part", "storage"),
}
GOOD: dict[str, Any] = {
    "scenario": {"name": "from-the-page", "repeats": 2, "timeout": "5m"},
    "workload": {"kind": "inference", "network": ["alexnet", "resnet18"], "batch": [1, 2]},
    "limits": {"memory": ["max", "75%", "150M"], "swap": "1G"},
}


def check(sent: dict[str, Any]) -> dict[str, Any]:
    return check_form(sent, FormFiles())


def sent(**changes: dict[str, Any]) -> dict[str, Any]:
    return {name: {**GOOD.get(name, {}), **changes.get(name, {})} for name in {**GOOD, **changes}}


def test_only_safe_types_are_shown():
    made = form_tables(FormFiles())
    groups = [*made["workload"].values(), *(t for n, t in made.items() if n != "workload")]
    keys = [key for group in groups for key in group]
    assert {key["type"] for key in keys} <= SAFE
    forbidden = {"command", "cwd", "env", "checkpoint", "data_folder", "start"}
    assert not forbidden & {key["name"] for key in keys}
    assert "command" not in made["workload"]


def test_a_right_form_becomes_the_same_scenario(tmp_path: Path):
    told = check(sent())
    assert (told["name"], told["points"], told["trials"]) == ("from-the-page", 12, 24)
    file = tmp_path / "s.toml"
    file.write_text(told["scenario"])
    scenario = load_scenario(file)
    assert scenario.workload.networks() == ("alexnet", "resnet18")
    assert scenario.limits.memory_labels() == ("max", "75%", "150M")


def test_faults_are_those_of_a_scenario():
    bad = sent(workload={"network": ["alexnett"]}, limits={"memory": ["75%", "lots"]})
    told = {fault["key"].partition("[")[0]: fault["says"] for fault in check(bad)["faults"]}
    assert told["workload.network"] == "no network 'alexnett'; did you mean 'alexnet'?"
    assert told["limits.memory"].startswith("'lots' is not a size")


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"workload": {"kind": "command"}}, "workload.kind"),
        ({"workload": {"kind": "scan"}}, "workload.kind"),
        ({"workload": {"kind": ["inference"]}}, "workload.kind"),
        ({"workload": {"command": ["true"]}}, "workload.command"),
        ({"workload": {"checkpoint": {"alexnet": "/etc/passwd"}}}, "workload.checkpoint"),
        ({"workload": {"network": [{"a": 1}]}}, "workload.network"),
        ({"limits": {"swap": {"kind": "file", "size": "1G"}}}, "limits.swap"),
        ({"elsewhere": {"x": 1}}, "elsewhere"),
        ({"scenario": {"schema": 9}}, "scenario.schema"),
        ({"scenario": {"workload": {"kind": "command"}}}, "scenario.workload"),
    ],
)
def test_what_the_form_does_not_show_is_refused(changes: dict[str, Any], key: str):
    assert key in {fault["key"] for fault in check(sent(**changes))["faults"]}


@pytest.mark.process
def test_the_server_answers_the_same(tmp_path: Path):
    with serving(tmp_path / "results", helpers=True) as served:
        assert served.get("/api/form").data["workload"]["inference"]
        right = served.post("/api/check", sent()).data
        assert right["trials"] == 24
        assert served.post("/api/start", sent(workload={"batch": [0]})).data["faults"]
        assert not served.page_sweep.folder.exists()


@pytest.mark.process
def test_nonsense_is_answered_in_words(served: Served):
    answer = served.post("/api/check", "x")
    assert (answer.status, answer.data["error"]["what"]) == (422, "what was sent is not a form")


@pytest.fixture
def with_files(tmp_path: Path) -> FormFiles:
    folder = tmp_path / "permitted"
    files = (*VISION_FILES["mnist"], "lenet.safetensors", "model.onnx", "deep/other.safetensors")
    for name in (*files, "../outside.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / "nets.py").write_text("raise SystemExit('it was imported')")
    (folder / "linked.py").symlink_to(tmp_path / "outside.py")
    return FormFiles(folder)


def test_files_of_the_servers_folder_are_offered_by_name(with_files: FormFiles):
    keys = {key["name"]: key for key in form_tables(with_files)["workload"]["training"]}
    assert keys["start"]["choices"] == ("scratch", "lenet.safetensors")
    assert "mnist" in keys["data"]["choices"]
    assert not {"cifar10", "fashion-mnist"} & set(keys["data"]["choices"])
    assert str(with_files.folder) not in str(keys)
    none = {key["name"]: key for key in form_tables(FormFiles())["workload"]["training"]}
    assert "start" not in none
    assert "digits" in none["data"]["choices"]
    assert "mnist" not in none["data"]["choices"]


def test_a_chosen_name_becomes_a_path_of_that_folder(with_files: FormFiles):
    workload = {"kind": "training", "network": ["lenet"], "data": ["mnist"]}
    told = check_form(
        sent() | {"workload": {**workload, "start": ["lenet.safetensors"]}}, with_files
    )
    assert f'data_folder = "{with_files.folder}"' in told["scenario"]
    assert f'start = ["{with_files.folder}/lenet.safetensors"]' in told["scenario"]


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../lenet.safetensors", "deep/other.safetensors", 1]
)
def test_no_other_file_can_be_named(with_files: FormFiles, name: Any):
    workload = {"kind": "training", "network": ["lenet"], "start": [name]}
    for offered in (with_files, FormFiles()):
        (fault,) = check_form(sent() | {"workload": workload}, offered)["faults"]
        assert fault["key"].partition("[")[0] == "workload.start"


def test_code_in_the_permitted_folder_can_be_named(with_files: FormFiles):
    for name in ("nets.py:make?depth=3", "model.onnx"):
        told = check_form(
            sent() | {"workload": {"kind": "inference", "network": [name]}}, with_files
        )
        assert f'"{with_files.folder}/{name}"' in told["scenario"]
    training = {"kind": "training", "network": ["nets.py:Net"], "data": ["nets.py:load"]}
    told = check_form(sent() | {"workload": training}, with_files)
    assert f'data = ["{with_files.folder}/nets.py:load"]' in told["scenario"]


@pytest.mark.parametrize(
    "name",
    [
        *("other.py:make", "linked.py:make", "../outside.py:make", "os:system"),
        *("/etc/passwd", "nets.py", "nets.py:make?x=/y", "transformers:.", "x/nets.py:make"),
        *("model.pt", "a b", "", "mypackage:make", "os.system", "alexnet; rm -rf"),
    ],
)
def test_nothing_else_can_be_named(with_files: FormFiles, name: str):
    for key in ("network", "data"):
        workload = {"kind": "training", "network": ["lenet"], key: [name]}
        for offered in (with_files, FormFiles()):
            (fault,) = check_form(sent() | {"workload": workload}, offered)["faults"]
            assert fault["key"].partition("[")[0] == f"workload.{key}"
