"""Scenario files: what is read, what is refused, and in which words; and every shown example."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel
from scenario_making import COMMAND, CONVOLUTION, INFERENCE, TRAINING, load_text, refusal, with_key

from edgebench.errors import ScenarioError, UsageError, WorkloadError
from edgebench.scenario.flags import TYPED
from edgebench.scenario.limits import LimitAxes, MemoryRange, SwapKeys
from edgebench.scenario.new_scenario import layer_scenario
from edgebench.scenario.scenario import (
    BackgroundKeys,
    Choices,
    MemoryKeys,
    Range,
    SamplerKeys,
    Scenario,
    Search,
    load_scenario,
)
from edgebench.scenario.training import TrainingWorkload
from edgebench.scenario.workloads import CommandWorkload, ConvolutionWorkload, InferenceWorkload


def test_a_scenario_is_read_with_defaults(tmp_path: Path) -> None:
    scenario = load_text(tmp_path, INFERENCE)
    assert (scenario.name, scenario.seed, scenario.repeats) == ("tiny", 3, 2)
    assert scenario.timeout_s == 600
    assert (scenario.sampler.interval_s, scenario.sampler.stat_interval_s) == (None, None)
    assert scenario.workload.networks() == ("alexnet", "lenet")
    assert scenario.text == INFERENCE


@pytest.mark.parametrize(
    ("table", "line", "key", "says"),
    [
        ("", "repeets = 3", "repeets", "no such key; did you mean 'repeats'?"),
        ("", "zzz = 3", "zzz", "the keys here are schema, name"),
        ("", 'name = "Tiny"', "name", "a-z, 0-9 and '-'"),
        ("", f'name = "{"x" * 65}"', "name", "64 at most"),
        ("", "seed = 4294967296", "seed", "less than 4294967296"),
        ("", "seed = 1.5", "seed", "whole number"),
        ("", "repeats = 0", "repeats", "greater than or equal to 1; for example 3"),
        ("", 'timeout = "0s"', "timeout", "not a duration"),
        ("", 'timeout = "3 hr"', "timeout", "did you mean '3h'?"),
        ("", "timeout = true", "timeout", "neither text in quotes nor a number"),
        ("workload", 'network = "resnet81"', "workload.network", "did you mean 'resnet18'?"),
        ("workload", 'network = ["lenet", "x"]', "workload.network[1]", "no network 'x'"),
        ("workload", 'network = "x"', "workload.network", ", efficientnet_b2 … ("),
        ("workload", "network = []", "workload.network", "empty list"),
        ("workload", 'network = ["lenet", "lenet"]', "workload.network", "is listed twice"),
        ("workload", 'pipeline = ["lenet"]', "workload", "can't both be given"),
        ("workload", 'schedule = "linaer"', "workload.schedule", "did you mean 'linear'?"),
        ("workload", 'kind = "inferense"', "workload.kind", "did you mean 'inference'?"),
        ("workload", 'cpmmand = ["a"]', "workload.cpmmand", "the keys here are kind, network"),
        ("workload", "zzz = 1", "workload.zzz", " loader,"),
        ("workload", 'checkpoint = "x.pt"', "workload.checkpoint", "should be a table"),
        ("workload", 'checkpoint = {lenet = "no.pt"}', "workload.checkpoint.lenet", "no file"),
        ("limits", 'memry = "1G"', "limits.memry", "did you mean 'memory'?"),
        ("limits", "target = 0.1", "limits", 'write plan = "walk"'),
        ("sampler", 'stat_interval = "0.5ms"', "sampler", "stat_interval is shorter than interval"),
    ],
)
def test_each_fault_is_told_at_its_key(
    tmp_path: Path, table: str, line: str, key: str, says: str
) -> None:
    text = with_key(INFERENCE, table, line)
    told = refusal(tmp_path, text)
    assert told.startswith("1 fault in ")
    assert f" {key}: " in told
    assert says in told
    shown = text.splitlines().index(line) + 1
    header = text.splitlines().index(f"[{table}]") + 1 if table else shown
    assert f"line {shown}, " in told or f"line {header}, " in told
    assert "given.toml" in told
    assert "given.toml --dry-run" in told


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('command = "python3 a.py"', 'a list, no shell reads it: ["python3", "a.py"]'),
        ("command = []", "the program and its arguments as a list"),
        ('command = [""]', "the program's name is empty"),
        ('command = ["a", 1]', "1 is not text"),
        ('cwd = "no-such-folder"', "no folder"),
        ("cwd = 3", "3 is not a path"),
        ('env = {"A=B" = "c"}', "'A=B' can't be"),
        ("env = {A = 1}", "should be text in quotes"),
        ('network = "lenet"', "the keys here are kind, command, cwd, env"),
    ],
)
def test_faults_of_a_command(tmp_path: Path, line: str, says: str) -> None:
    told = refusal(tmp_path, with_key(COMMAND, "workload", line))
    assert told.startswith("1 fault in ")
    assert says in told


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    text = with_key(INFERENCE, "", "repeats = 0")
    text = with_key(text, "workload", 'schedule = "linaer"')
    told = refusal(tmp_path, with_key(text, "limits", "cores = 0"))
    assert told.startswith("3 faults in ")
    assert told.index("repeats") < told.index("workload.schedule") < told.index("limits.cores")


def test_what_is_missing_is_named_with_an_example(tmp_path: Path) -> None:
    told = refusal(tmp_path, "")
    assert "schema: is missing; write schema = 1" in told
    assert 'name: is missing; write name = "my-board"' in told
    assert "workload: is missing; write a [workload] table" in told


def test_a_newer_schema_is_refused_by_name(tmp_path: Path) -> None:
    told = refusal(tmp_path, INFERENCE.replace("schema = 1", "schema = 2"))
    assert "schema 2" in told
    assert "upgrade edgebench" in told


@pytest.mark.parametrize("text", ["name = tiny", "[workload", "a = 1\na = 2", "x = {a = 1"])
def test_what_is_no_toml_says_where(tmp_path: Path, text: str) -> None:
    told = refusal(tmp_path, text)
    assert told.startswith("not TOML: ")
    assert "given.toml" in told


def test_a_file_that_can_t_be_read(tmp_path: Path) -> None:
    (tmp_path / "given.toml").write_bytes(b"name = '\xff'")
    for name, says in (
        (tmp_path / "given.toml", "not UTF-8"),
        (tmp_path / "givne.toml", r"did you mean '.*given\.toml'"),
        (tmp_path, "is a folder"),
        ("quickstrat", "did you mean 'quickstart'"),
    ):
        with pytest.raises(ScenarioError, match=says):
            load_scenario(name)


def test_a_checkpoint_beside_the_scenario_must_fit_the_workload(tmp_path: Path) -> None:
    for name in ("own.pt", "own.zip"):
        (tmp_path / name).write_bytes(b"")
    own, other, wrong = (
        with_key(INFERENCE, "workload", f"checkpoint = {{{pair}}}")
        for pair in ('lenet = "own.pt"', 'lenett = "own.pt"', 'lenet = "own.zip"')
    )
    (first, *_) = load_text(tmp_path, own).workload.settings(1)
    assert first["checkpoint"] == {"lenet": str(tmp_path / "own.pt")}
    assert "did you mean 'lenet'?" in refusal(tmp_path, other)
    assert ".safetensors or .pt" in refusal(tmp_path, wrong)


#: Other words for the same, and what means something else; each in a table of INFERENCE.
SAME = [
    *(("", 'description = "other"'), ("", "timeout = 600"), ("around", 'background = "none"')),
    *(("limits", 'plan = "grid"'), ("limits", 'storage = "as-is"'), ("limits", 'swap = "none"')),
]
OTHER = [
    *(("", "seed = 4"), ("", "repeats = 3"), ("", 'name = "other"'), ("", 'timeout = "1s"')),
    *(("limits", 'plan = "walk"'), ("limits", 'storage = "read=90MB/s"'), ("limits", "cores = 1")),
    *(("limits", 'board = "raspberry-pi-4-4g"'), ("limits", 'board = "jetson-nano-4g"')),
    ("workload", 'accelerator = ["none", "cuda"]'),
]


def test_the_fingerprint_is_of_the_meaning(tmp_path: Path) -> None:
    plain = load_text(tmp_path, f"# a note\n{INFERENCE}".replace(" = ", "=")).fingerprint()
    same, other = (
        [load_text(tmp_path, with_key(INFERENCE, *one)).fingerprint() for one in table]
        for table in (SAME, OTHER)
    )
    assert {*same} == {plain, load_text(tmp_path, INFERENCE).fingerprint()}
    assert len({plain, *other}) == 1 + len(OTHER)


@pytest.mark.parametrize("text", [INFERENCE, TRAINING])
def test_what_a_checkpoint_holds_is_part_of_the_meaning(tmp_path: Path, text: str) -> None:
    file = tmp_path / "own.safetensors"
    file.write_bytes(b"first")
    line = 'checkpoint = {lenet = "own.safetensors"}'
    if text is TRAINING:
        line = 'start = ["scratch", "own.safetensors"]'
    scenario = load_text(tmp_path, with_key(text, "workload", line))
    before = scenario.fingerprint()
    assert scenario.fingerprint() == before
    file.write_bytes(b"second")
    assert scenario.fingerprint() != before
    file.unlink()
    with pytest.raises(WorkloadError, match="can't be read"):
        scenario.fingerprint()


PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "scenarios.md").read_text()
TABLES: dict[str, type[BaseModel]] = {
    "": Scenario,
    "workload": InferenceWorkload,
    "limits": LimitAxes,
    "sampler": SamplerKeys,
    "memory": MemoryKeys,
    "around": BackgroundKeys,
}
#: Kinds of workload besides inference, each with a scenario that its keys fit into.
KINDS: list[tuple[type[BaseModel], str]] = [
    (CommandWorkload, COMMAND),
    (ConvolutionWorkload, CONVOLUTION),
    (TrainingWorkload, TRAINING),
]
#: What is no key of a table by itself; tests of its own hold its examples.
INNER = (
    *("checkpoint", "shape", "from", "to", "steps", "spacing", "size", "kind", "target", "starts"),
    "accelerator_memory",
)
#: Options of engines: they go with a network in a file that the engine executes.
ENGINE_OPTIONS = {
    **dict.fromkeys(("arena", "memory_pattern", "optimization", "prepacking"), "model.onnx"),
    "node_times": "model.onnx",
    "xnnpack": "model.tflite",
    **dict.fromkeys(("onednn", "xla"), "model.keras"),
}


def example_text(folder: Path, name: str, text: str) -> str:
    """A scenario in which a workload's key has a meaning, with the files it names."""
    for file in ("model.onnx", "model.tflite", "model.keras", "model.gguf", "prompts.txt"):
        (folder / file).touch()
    if name == "compiled":
        text = with_key(text, "workload", 'network = "basic_cnn"')
        return with_key(text, "workload", 'framework = "tensorflow"')
    if name == "prompt":
        return with_key(text, "workload", "new_tokens = 4")
    both = 'network = ["alexnet", "lenet"]\n'
    if name == "pipeline":
        return text.replace(both, "")
    return text.replace(both, f'network = "{ENGINE_OPTIONS.get(name, "lenet")}"\n')


def test_every_table_is_on_the_page() -> None:
    kinds = [kind for kind, _ in KINDS]
    known = {*TABLES.values(), *kinds, MemoryRange, SwapKeys, Search, Range, Choices}
    assert {*re.findall(r"<!-- keys: (\w+)", PAGE)} == {table.__name__ for table in known}


def test_every_example_is_valid(tmp_path: Path) -> None:
    shown = [(table, model, INFERENCE) for table, model in TABLES.items()]
    for table, model, text in [*shown, *(("workload", kind, text) for kind, text in KINDS)]:
        for field, info in model.model_fields.items():
            # A shape goes with data = "synthetic" alone; and those of other kinds of plan.
            if field in ("shape", "search") or (text is INFERENCE and field in INNER):
                continue
            name = info.alias or field
            for example in info.examples or ():
                own = example_text(tmp_path, name, text)
                load_text(tmp_path, with_key(own, table, f"{name} = {example}"))


def test_shown_scenarios_are_valid(tmp_path: Path) -> None:
    for shown in re.findall(r"```toml\n(.+?)```", PAGE, re.DOTALL):
        if "schema" in shown:
            assert load_text(tmp_path, shown).name


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            {"schedule": "stream", "memory": ["60%"]},
            'the schedule "stream" reads mapped weights; write --loader mmap',
        ),
        (
            {"schedule": "stream", "loader": "mmap", "memory": ["60%"], "plan": "walk"},
            'in a walk the limit moves, and the schedule "stream" goes by one; leave --plan out',
        ),
        (
            {"plan": "walk"},
            "a walk needs limits to go to; write --memory 80% --memory 60% --memory 40%",
        ),
        ({"memory": ["40%"], "swap": "zram"}, '--swap: it needs a size; write "zram:2G"'),
        ({"memory": ["40%", "nonsense"]}, "--memory: 'nonsense' is not a size"),
        (
            {"image": 64, "input": "float32 1x3x64x64"},
            "--input and --image can't both be given; leave one out",
        ),
    ],
)
def test_a_refused_flag_is_worded_as_it_is_typed(asked: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        layer_scenario("alexnet", **asked)  # type: ignore[arg-type]
    assert refused.value.what.startswith(words)
    assert "\n" not in refused.value.what


def test_every_flag_stands_for_a_key_of_some_scenario() -> None:
    """A key that is renamed in scenarios can't be forgotten here."""
    tables = {"limits": Scenario.model_fields["limits"].annotation}
    known = {*Scenario.model_fields, *(i.alias for i in Scenario.model_fields.values())}
    known |= {f"limits.{key}" for key in tables["limits"].model_fields}  # type: ignore[union-attr]
    workloads = Scenario.model_fields["workload"].annotation
    kinds = [kind.__origin__ for kind in workloads.__args__]  # type: ignore[union-attr]
    known |= {f"workload.{key}" for kind in kinds for key in kind.model_fields}
    known |= {f"workload.{i.alias}" for kind in kinds for i in kind.model_fields.values()}
    assert set(TYPED) <= known
