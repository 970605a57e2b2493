"""Engines of files, in the worker's own process: units, outputs, options, and refusals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import onnx
import onnxruntime
import pytest
from engine_models import (
    made_onnx,
    made_tflite,
    made_with_weights_beside,
    run_settings,
    small_network,
)
from onnx import TensorProto, helper

from edgebench.errors import EdgebenchError, MachineError, ResultsError, WorkloadError
from edgebench.identity import python_path
from edgebench.layers.disk import weights_in
from edgebench.layers.names import SCHEDULES as BY_LAYER
from edgebench.measures.strategies.operators import Operators
from edgebench.measures.strategy import TrialData
from edgebench.results.frames import ENGINE
from edgebench.results.workload_labels import workload_label
from edgebench.workloads.engines.file_preparation import manifest_of_files
from edgebench.workloads.engines.onnx_files import typed_graph
from edgebench.workloads.engines.onnx_graph import GraphCutter
from edgebench.workloads.engines.registry import all_engines, engine_of, engines_for
from edgebench.workloads.inference import run_inference
from edgebench.workloads.recorder import Recorder

if TYPE_CHECKING:
    from edgebench.records import TrialRecord

SCHEDULES, LOADERS = ("whole", "bulk", "linear"), ("copy", "mmap")


class Notes(Recorder):
    """Keeps what is noted, and the phases in order."""

    def __init__(self, profile: Path | None = None) -> None:
        super().__init__()
        self.notes: dict[str, Any] = {}
        self.phases: list[tuple[str, int | None]] = []
        self.times: list[tuple[str, str, int, int]] = []
        self._profile = profile

    @property
    def profile_folder(self) -> Path | None:
        """As a strategy's view has it."""
        return self._profile

    def operator_time(self, phase: str, operator: str, calls: int, own_ns: int) -> None:
        """Keep it."""
        self.times.append((phase, operator, calls, own_ns))

    def note(self, **data: Any) -> None:
        """Keep it."""
        self.notes.update(data)

    def span(self, phase: str, **place: Any) -> Any:
        """Keep its phase and layer."""
        self.phases.append((phase, place.get("layer")))
        return super().span(phase, **place)


def prepared(file: Path, cache: Path, **other: Any) -> dict[str, Any]:
    """The manifest's part of one file."""
    request = {
        "files": {file.name: str(file)},
        "cache": str(cache),
        "schedules": SCHEDULES,
        "loaders": LOADERS,
        "batch": 1,
        "image": None,
        **other,
    }
    found: dict[str, Any] = manifest_of_files(request)["networks"][file.name]
    return found


@pytest.fixture
def onnx_folder(tmp_path: Path) -> Path:
    """The small network, made ready in every form."""
    return Path(prepared(made_onnx(tmp_path), tmp_path / "cache")["folder"])


def run(network: str, engine: str, folder: Path, **other: Any) -> Notes:
    """One trial's work, without a cgroup."""
    notes = Notes(other.pop("profile", None))
    run_inference(run_settings(network, engine, folder, **other), notes)
    return notes


def test_names_and_formats_need_no_heavy_library():
    """A scenario is read where no engine is installed: the table of engines imports none."""
    code = (
        "import sys; from edgebench.workloads.engines.registry import all_engines; all_engines(); "
        "print([m for m in ('torch', 'onnxruntime', 'onnx', 'ai_edge_litert', 'tensorflow', "
        "'keras', 'numpy') if m in sys.modules])"
    )
    env = {**os.environ, "PYTHONPATH": python_path()}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"
    assert list(all_engines()) == ["torch", "litert", "onnxruntime", "tensorflow"]
    assert engines_for("a.onnx") == ("onnxruntime",)
    assert engines_for("a.TFLITE") == ("litert",)
    assert engines_for("a.keras") == ("tensorflow",)
    assert engines_for("resnet18") == ("torch",)
    assert not engine_of("litert").by_layer
    assert engine_of("onnxruntime").by_layer


def test_each_option_is_a_column_and_in_a_label():
    """Two workloads that differ in an option alone are told apart in frames and in words."""
    for engine in all_engines().values():
        assert set(engine.axes) <= set(ENGINE)
        for axis in engine.axes:
            known = {workload_label({axis: value}) for value in (True, False)}
            assert len(known) == 2, axis


def test_layers_cover_the_graph_and_join_at_its_tensors():
    """Each node is in one layer; what a layer reads, the graph or an earlier layer gives."""
    model = small_network()
    typed = typed_graph(model).value_info
    layers = GraphCutter(model.graph, (one.name for one in typed)).layers()
    assert [layer.name for layer in layers] == ["conv1", "conv2", "dense"]
    assert [layer.type for layer in layers] == [
        "Conv, Relu",
        "Conv, Add, Relu, MaxPool, Flatten",
        "Gemm",
    ]
    assert sum(len(layer.nodes) for layer in layers) == len(model.graph.node)
    known = {"x"}
    for layer in layers:
        assert set(layer.inputs) <= known
        known |= set(layer.outputs)
    assert "y" in known


def test_a_dequantised_weight_stays_with_its_operator():
    """Quantised operators keep what the engine fuses: no border falls between both."""
    model = small_network()
    graph = model.graph
    scale = onnx.numpy_helper.from_array(np.array(0.01, np.float32), "scale")
    point = onnx.numpy_helper.from_array(np.array(0, np.int8), "point")
    stored = onnx.numpy_helper.from_array(np.ones((16, 16, 3, 3), np.int8), "w2q")
    kept = [one for one in graph.initializer if one.name != "w2"]
    del graph.initializer[:]
    graph.initializer.extend([*kept, scale, point, stored])
    graph.node.insert(0, helper.make_node("DequantizeLinear", ["w2q", "scale", "point"], ["w2"]))
    layers = GraphCutter(graph, (one.name for one in typed_graph(model).value_info)).layers()
    assert [layer.name for layer in layers] == ["conv1", "conv2", "dense"]
    assert "w2q" in layers[1].weights


def test_a_border_of_unknown_type_is_none():
    """A session must be told what its inputs are: such layers are one."""
    model = small_network()
    (layer,) = GraphCutter(model.graph, ()).layers()
    assert len(layer.nodes) == len(model.graph.node)


@pytest.mark.parametrize("loader", LOADERS)
def test_layers_in_turn_give_the_whole_graphs_output(onnx_folder: Path, loader: str):
    """By layer or as a whole, weights copied or mapped: the same output, within rounding."""
    outputs = {}
    for schedule in SCHEDULES:
        settings = run_settings("small.onnx", "onnxruntime", onnx_folder, schedule=schedule)
        model = engine_of("onnxruntime").model(onnx_folder, {**settings, "loader": loader}, None)  # type: ignore[attr-defined]
        values = model.inputs()
        for unit in model.units:
            model.load(unit)
            values.update(model.run(unit, {name: values[name] for name in unit.inputs}))
            model.unload(unit)
        outputs[schedule] = values["y"].numpy()
    assert len(model.units) == 3
    np.testing.assert_allclose(outputs["bulk"], outputs["whole"], atol=1e-5)
    np.testing.assert_array_equal(outputs["bulk"], outputs["linear"])


def test_phases_of_each_schedule(onnx_folder: Path):
    """As a whole there are no layers; bulk loads all first; linear loads each before its use."""

    def phases(schedule: str) -> list[tuple[str, int | None]]:
        notes = run("small.onnx", "onnxruntime", onnx_folder, schedule=schedule)
        return [one for one in notes.phases if one[0] not in ("import", "init", "round")]

    assert phases("whole") == [("load", None), ("first", None), ("execute", None)]
    assert phases("bulk") == [
        *(("load", n) for n in range(3)),
        *(("first", n) for n in (None, 0, 1, 2)),
        *(("execute", n) for n in (None, 0, 1, 2)),
    ]
    assert phases("linear") == [(phase, n) for n in range(3) for phase in ("load", "first")]


def test_the_same_seed_gives_the_same_digest(onnx_folder: Path):
    """Rounds and trials agree; another seed's input gives another output."""
    first, again, other = (
        run("small.onnx", "onnxruntime", onnx_folder, rounds=2, seed=seed).notes["output_sha256"]
        for seed in (1, 1, 2)
    )
    assert first == again != other


def test_options_reach_onnx_runtime(onnx_folder: Path):
    """Each option of a scenario is the session's."""
    settings = run_settings("small.onnx", "onnxruntime", onnx_folder, arena=False)
    settings |= {"memory_pattern": False, "optimization": "none", "prepacking": False, "threads": 2}
    model: Any = engine_of("onnxruntime").model(onnx_folder, settings, None)  # type: ignore[attr-defined]
    options = model._options(model.units[0])
    assert not options.enable_cpu_mem_arena
    assert not options.enable_mem_pattern
    level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert options.graph_optimization_level == level
    assert options.get_session_config_entry("session.disable_prepacking") == "1"
    assert options.intra_op_num_threads == 2


def test_times_of_operators_come_from_its_profile(onnx_folder: Path, tmp_path: Path):
    """Calls and times by phase, where a strategy asks for them."""
    notes = run("small.onnx", "onnxruntime", onnx_folder, warm=2, profile=tmp_path)
    calls = {(phase, operator): n for phase, operator, n, _ in notes.times}
    assert calls["first", "Gemm"] == 1
    assert calls["execute", "Gemm"] == 2
    assert all(own_ns >= 0 for *_, own_ns in notes.times)


def test_an_engine_without_a_profiler_says_so(tmp_path: Path):
    """The strategy ``operators`` gives LiteRT's reason, and no word of torch."""
    folder = Path(prepared(made_tflite(tmp_path), tmp_path / "cache")["folder"])
    notes = run("small.tflite", "litert", folder, profile=tmp_path).notes
    record = SimpleNamespace(notes=notes)
    with pytest.raises(ResultsError, match=r"^LiteRT's Python package has no profiler$"):
        Operators().read(TrialData([], cast("TrialRecord", record), tmp_path))
    assert "no_operator_times" not in run("small.tflite", "litert", folder).notes


def test_the_table_has_each_layers_sizes(tmp_path: Path):
    """Weights, outputs, multiplications and additions, and the files that a layer loads."""
    made = prepared(made_onnx(tmp_path), tmp_path / "cache")
    conv1, conv2, dense = made["table"]
    assert conv1["parameter_bytes"] == 4 * (16 * 27 + 16)
    assert conv1["flops"] == 2 * 16 * 16 * 16 * 27
    assert conv2["output_bytes"] == 4 * 1024
    assert dense["flops"] == 2 * 50 * 1024
    assert dense["file_bytes"] >= dense["parameter_bytes"] == 4 * (50 * 1024 + 50)
    assert conv1["live_before_bytes"] == 4 * 3 * 16 * 16
    assert made["parameter_bytes"] == sum(row["parameter_bytes"] for row in made["table"])


def test_files_of_all_forms_are_evicted(onnx_folder: Path):
    """A cold trial finds none of them in the page cache: another cgroup would pay for them."""
    names = {file.suffix for file in weights_in([onnx_folder])}
    assert names == {".onnx", ".data"}
    assert len(list(onnx_folder.glob("*-*"))) == 4


def test_both_engines_compute_the_same(tmp_path: Path):
    """The same weights and picture in ONNX Runtime and LiteRT: within a thousandth."""
    from ai_edge_litert.interpreter import Interpreter

    picture = np.random.default_rng(0).random((1, 3, 16, 16), dtype=np.float32)
    session = onnxruntime.InferenceSession(str(made_onnx(tmp_path)))
    (expected,) = session.run(None, {"x": picture})
    engine = Interpreter(str(made_tflite(tmp_path)))
    engine.allocate_tensors()
    moved = np.ascontiguousarray(picture.transpose(0, 2, 3, 1))
    engine.set_tensor(engine.get_input_details()[0]["index"], moved)
    engine.invoke()
    found = engine.get_tensor(engine.get_output_details()[0]["index"])
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("xnnpack", [True, False])
def test_litert_runs_a_file_as_a_whole(tmp_path: Path, loader: str, xnnpack: bool):
    """Its phases are load, first and execute, with each loader, with XNNPACK and without."""
    folder = Path(prepared(made_tflite(tmp_path), tmp_path / "cache")["folder"])
    notes = run("small.tflite", "litert", folder, loader=loader, xnnpack=xnnpack, rounds=2)
    phases = [one for one in notes.phases if one[0] not in ("import", "init", "round")]
    assert phases == [("load", None), ("first", None), ("execute", None)] * 2
    assert len(notes.notes["output_sha256"]["small.tflite"]) == 64


def test_changed_weights_beside_a_file_make_another_network(tmp_path: Path):
    """Its content and folder follow the ``.data`` file, with the ``.onnx`` file unchanged."""
    file, data = made_with_weights_beside(tmp_path)
    before = prepared(file, tmp_path / "cache")
    outputs = [run(file.name, "onnxruntime", Path(before["folder"])).notes["output_sha256"]]
    weights = np.fromfile(data, np.float32)
    (weights * 0.5).astype(np.float32).tofile(data)
    after = prepared(file, tmp_path / "cache")
    assert after["content"] != before["content"]
    assert after["folder"] != before["folder"]
    outputs.append(run(file.name, "onnxruntime", Path(after["folder"])).notes["output_sha256"])
    assert outputs[0] != outputs[1]
    data.unlink()
    with pytest.raises(WorkloadError, match=r"weights is missing: 'beside.onnx.data'"):
        prepared(file, tmp_path / "cache")


@pytest.mark.parametrize("place", ["initializer", "node"])
@pytest.mark.parametrize("name", ["../secret.data", "{}/secret.data", "link.data", ""])
def test_weights_outside_the_files_folder_are_not_read(tmp_path: Path, place: str, name: str):
    """A file of another's can't have any other file read: by path, by link, or from a node."""
    (tmp_path / "secret.data").write_bytes(bytes(1 << 20))
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "link.data").symlink_to(tmp_path / "secret.data")
    model = small_network()
    (tensor,) = (one for one in model.graph.initializer if one.name == "w2")
    if place == "node":
        model.graph.node.append(helper.make_node("Constant", [], ["c"], value=tensor))
        tensor = model.graph.node[-1].attribute[0].t
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=name.format(tmp_path))
    (folder / "a.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(WorkloadError, match="it names weights outside its own folder"):
        prepared(folder / "a.onnx", tmp_path / "cache")


def test_a_dynamic_batch_is_filled(tmp_path: Path):
    """The batch fills a dynamic first dimension; a fixed one refuses another batch."""
    cache = tmp_path / "cache"
    folder = Path(prepared(made_onnx(tmp_path, "free.onnx", "n"), cache, batch=4)["folder"])
    assert run("free.onnx", "onnxruntime", folder, batch=4).notes["output_sha256"]
    with pytest.raises(WorkloadError, match="batch of 4 does not match the file"):
        prepared(made_onnx(tmp_path), cache, batch=4)


def _damaged(folder: Path, name: str) -> Path:
    whole = (made_onnx(folder) if name.endswith("onnx") else made_tflite(folder)).read_bytes()
    path = folder / f"cut-{name}"
    path.write_bytes(whole[: len(whole) // 2])
    return path


def _other(folder: Path, name: str) -> Path:
    path = folder / f"other-{name}"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    return path


def _unknown_operator(folder: Path, name: str) -> Path:
    model = small_network()
    model.graph.node[1].op_type = "Frobnicate"
    model.graph.node[1].domain = "com.example"
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    path = folder / f"unknown-{name}"
    onnx.save(model, str(path))
    return path


def _operator_of_no_opset(folder: Path, name: str) -> Path:
    model = small_network()
    model.graph.node[1].op_type = "Frobnicate"
    path = folder / f"unknown-{name}"
    onnx.save(model, str(path))
    return path


def _opset_to_come(folder: Path, name: str) -> Path:
    path = folder / f"late-{name}"
    onnx.save(small_network(opset=99), str(path))
    return path


def _larger_than_memory(folder: Path, name: str) -> Path:
    path = folder / f"large-{name}"
    path.touch()
    # It has no blocks on the disk.
    os.truncate(path, 1 << 42)
    return path


def _custom_operator(folder: Path, name: str) -> Path:
    """What a converter writes for an operator that TFLite has not."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(made_tflite(folder).read_bytes(), 0)
    code = model.operatorCodes[0]
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
    code.customCode = b"Frobnicate"
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path = folder / f"custom-{name}"
    path.write_bytes(bytes(builder.Output()))
    return path


@pytest.mark.parametrize(
    ("make", "name", "words"),
    [
        (_damaged, "a.onnx", "no ONNX file, or not a whole one"),
        (_other, "a.onnx", "no ONNX file, or not a whole one"),
        (_damaged, "a.tflite", "no TFLite file, or not a whole one"),
        (_other, "a.tflite", "no TFLite file, or not a whole one"),
        (_unknown_operator, "a.onnx", "Frobnicate"),
        (_operator_of_no_opset, "a.onnx", r"ONNX does not have: Frobnicate \(opset 17\)"),
        (_opset_to_come, "a.onnx", "it is of opset 99, and this version reads up to"),
        (_larger_than_memory, "a.onnx", "4096.00 GiB and must be read into memory"),
        (_larger_than_memory, "a.tflite", "are free on this machine"),
        (_larger_than_memory, "a.keras", "are free on this machine"),
        (_custom_operator, "a.tflite", "LiteRT refuses it: .*Frobnicate"),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence(tmp_path: Path, make: Any, name: str, words: str):
    """Cut short, of another format, or with an operator that the engine lacks."""
    with pytest.raises(EdgebenchError, match=words) as refused:
        prepared(make(tmp_path, name), tmp_path / "cache")
    assert "\n" not in refused.value.what
    assert len(refused.value.what) < 400
    assert refused.value.remedy


def test_an_input_of_text_is_refused(tmp_path: Path):
    """What can't be made up is named."""
    text = helper.make_tensor_value_info("words", TensorProto.STRING, [1])
    out = helper.make_tensor_value_info("out", TensorProto.STRING, [1])
    node = helper.make_node("Identity", ["words"], ["out"])
    graph = helper.make_graph([node], "text", [text], [out])
    path = tmp_path / "text.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
        str(path),
    )
    folder = Path(prepared(path, tmp_path / "cache")["folder"])
    with pytest.raises(WorkloadError, match="'words' is of a type that can't be made up"):
        run("text.onnx", "onnxruntime", folder)


def test_a_missing_engine_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The remedy is the command that installs it."""
    monkeypatch.setattr("edgebench.extras.missing", lambda modules: ["ai_edge_litert"])
    with pytest.raises(MachineError, match="LiteRT can't be used") as refused:
        prepared(made_tflite(tmp_path), tmp_path / "cache")
    assert "edgebench[litert]" in str(refused.value.remedy)


def test_torch_is_behind_the_same_interface():
    """Its engine answers as the others do: what it can, what it needs, and who runs a name."""
    torch = all_engines()["torch"]
    assert torch.available() is None
    assert torch.schedules == BY_LAYER
    assert not hasattr(torch, "prepare")
