"""Scenario files: what is read, what is refused, and in which words."""

from __future__ import annotations

from pathlib import Path

import pytest
from scenario_making import COMMAND, INFERENCE, TRAINING, load_text, refusal, with_key

from edgebench.errors import ScenarioError, WorkloadError
from edgebench.scenario.scenario import load_scenario


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
        ("workload", "network = []", "workload.network", "empty list"),
        ("workload", 'network = ["lenet", "lenet"]', "workload.network", "is listed twice"),
        ("workload", 'pipeline = ["lenet"]', "workload", "can't both be given"),
        ("workload", 'schedule = "linaer"', "workload.schedule", "did you mean 'linear'?"),
        ("workload", 'loader = "map"', "workload.loader", "did you mean 'mmap'?"),
        ("workload", 'kind = "inferense"', "workload.kind", "did you mean 'inference'?"),
        ("workload", 'cpmmand = ["a"]', "workload.cpmmand", "the keys here are kind, network"),
        ("workload", 'checkpoint = "x.pt"', "workload.checkpoint", "should be a table"),
        ("workload", 'checkpoint = {lenet = "no.pt"}', "workload.checkpoint.lenet", "no file"),
        ("limits", "cores = 0", "limits.cores", "greater than or equal to 1"),
        ("limits", 'memry = "1G"', "limits.memry", "did you mean 'memory'?"),
        ("limits", "target = 0.1", "limits", 'write plan = "walk"'),
        ("sampler", 'interval = "1us"', "sampler.interval", "0.0001"),
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


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 are said to be that."""
    file = tmp_path / "given.toml"
    file.write_bytes(b"name = '\xff'")
    with pytest.raises(ScenarioError, match="not UTF-8"):
        load_scenario(file)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    (tmp_path / "given.toml").write_text(INFERENCE)
    with pytest.raises(ScenarioError, match=r"did you mean '.*given\.toml'"):
        load_scenario(tmp_path / "givne.toml")
    with pytest.raises(ScenarioError, match="is a folder"):
        load_scenario(tmp_path)
    with pytest.raises(ScenarioError, match="did you mean 'quickstart'"):
        load_scenario("quickstrat")


def test_a_checkpoint_is_looked_for_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "own.pt").write_bytes(b"")
    text = with_key(INFERENCE, "workload", 'checkpoint = {lenet = "own.pt"}')
    (first, *_) = load_text(tmp_path, text).workload.settings(1)
    assert first["checkpoint"] == {"lenet": str(tmp_path / "own.pt")}


def test_a_checkpoint_must_fit_the_workload(tmp_path: Path) -> None:
    (tmp_path / "own.pt").write_bytes(b"")
    (tmp_path / "own.zip").write_bytes(b"")
    other = with_key(INFERENCE, "workload", 'checkpoint = {lenett = "own.pt"}')
    assert "did you mean 'lenet'?" in refusal(tmp_path, other)
    wrong = with_key(INFERENCE, "workload", 'checkpoint = {lenet = "own.zip"}')
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
