"""The table of engines: what each can do, which files it runs, and what tells its trials apart."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_runs import Notes

from edgebench.layers.names import SCHEDULES as BY_LAYER
from edgebench.results.columns import SETTINGS
from edgebench.results.workload_key import workload_label
from edgebench.workloads.engines.engine import (
    all_engines,
    engine_of,
    engines_for,
    file_engine,
    run_inference,
)
from edgebench.workloads.engines.file_preparation import manifest_of_files
from tests.own_path import python_path


@pytest.mark.process
def test_names_and_formats_need_no_heavy_library():
    code = (
        "import sys; from edgebench.workloads.engines.engine import all_engines; all_engines(); "
        "print([m for m in ('torch', 'onnxruntime', 'onnx', 'ai_edge_litert', 'tensorflow', "
        "'keras', 'numpy') if m in sys.modules])"
    )
    env = {**os.environ, "PYTHONPATH": python_path()}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"
    assert list(all_engines()) == [*("torch", "litert", "onnxruntime", "tensorflow", "torchscript")]
    assert all_engines()["torch"].schedules == BY_LAYER
    assert engines_for("a.onnx") == ("onnxruntime",)
    assert engines_for("a.TFLITE") == ("litert",)
    assert engines_for("a.keras") == ("tensorflow",)
    assert engines_for("resnet18") == ("torch",)


def test_each_option_is_a_column_and_in_a_label():
    for engine in all_engines().values():
        assert set(engine.axes) <= set(SETTINGS)
        for axis in engine.axes:
            known = {workload_label({axis: value}) for value in (True, False)}
            assert len(known) == 2, axis


#: A whole engine: its file holds a number, by which its input is multiplied.
TINY = """
from edgebench.layers.input_specs import FileInput
from edgebench.workloads.engines.engine import EngineModel, FileEngine, note_runtime


class Tiny(FileEngine):
    name, title = "tiny", "Tiny"
    formats, libraries, loaders = (".tiny",), ("numpy",), ("copy",)
    remedy = "write a number to it"

    def import_library(self, settings, recorder):
        note_runtime(recorder, tiny="1")

    def model(self, file, settings, profile=None):
        return TinyModel(file, settings)


class TinyModel(EngineModel):
    def load(self):
        self.factor = float(self.file.read_text())

    def inputs(self):
        return [FileInput("x", "float32", (None, 3))]

    def run(self, inputs):
        return inputs["x"] * self.factor

    def unload(self):
        del self.factor

    def output_bytes(self, output):
        return output.tobytes()
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    about = tmp_path / "tiny_engine-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-engine\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[edgebench.engines]\ntiny = tiny_engine:Tiny\n")
    (tmp_path / "tiny_engine.py").write_text(TINY)
    monkeypatch.syspath_prepend(tmp_path)
    all_engines.cache_clear()
    yield tmp_path
    engine_of.cache_clear()
    sys.modules.pop("tiny_engine", None)
    all_engines.cache_clear()


def test_an_engine_of_another_package_is_found_and_runs(installed: Path):
    file = installed / "net.tiny"
    file.write_text("2.5")
    assert engines_for(str(file)) == ("tiny",)
    assert next(iter(all_engines())) == "torch"
    assert file_engine(str(file)) is engine_of("tiny")
    common = {"batch": 2, "image": None, "seed": 3}
    asked = {"path": str(file), "settings": common, "loaders": ["copy"]}
    made = manifest_of_files({"files": {str(file): asked}, "cache": str(installed / "cache")})
    about = made["networks"][str(file)]
    assert (about["engine"], about["file_bytes"]) == ("tiny", 3)
    notes = Notes()
    rounds = {"schedule": "whole", "loader": "copy", "rounds": 2, "warm": 1, "page_cache": "warm"}
    weights = {str(file): about["folder"]}
    own = {"engine": "tiny", "networks": [str(file)], "weights": weights}
    run_inference({**own, **rounds, **common}, notes)
    assert notes.notes["tiny"] == "1"
    assert len(notes.notes["output_sha256"][str(file)]) == 64
