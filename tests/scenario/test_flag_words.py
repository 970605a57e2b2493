"""A refused flag is named as it is typed, not as a key of a scenario that nobody wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgebench.errors import ScenarioError, UsageError
from edgebench.scenario.faults import FLAGS
from edgebench.scenario.flag_scenario import layer_scenario, scenario_from_flags
from edgebench.scenario.scenario import Scenario, load_scenario

PROGRAM = """
schema = 1
name = "program"
[workload]
kind = "command"
command = ["true"]
[limits]
memory = "64M"
"""


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
    """Also where a fault is of several flags together."""
    with pytest.raises(UsageError) as refused:
        layer_scenario("alexnet", **asked)  # type: ignore[arg-type]
    assert refused.value.what.startswith(words)
    assert "\n" not in refused.value.what


def test_flags_with_dashes_are_named_with_dashes() -> None:
    """Keys of two words have underscores in scenarios alone."""
    text = {"kind": "inference", "network": "transformers:gpt2", "prompt": 8}
    with pytest.raises(UsageError) as refused:
        scenario_from_flags("layers", text, {})
    assert refused.value.what == "--prompt needs --new-tokens 16"
    program = {"kind": "command", "command": ["true"], "files": ["no-such-file"]}
    with pytest.raises(UsageError) as refused:
        scenario_from_flags("minimum", program, {})
    assert refused.value.what.startswith("--file: there is no file or folder ")
    assert refused.value.what.endswith("/no-such-file")


def test_no_help_is_named_where_the_message_says_what_to_write() -> None:
    """A name that is nearly right, and an example beside a number that is none."""
    for network, rounds, words in (("alexnett", 1, "did you mean"), ("alexnet", 0, "for example")):
        text = {"kind": "inference", "network": network, "rounds": rounds}
        with pytest.raises(UsageError, match=words) as refused:
            scenario_from_flags("layers", text, {})
        assert refused.value.remedy is None


def test_a_plan_that_does_not_fit_the_file_is_the_flags_fault(tmp_path: Path) -> None:
    """The file is valid without it; a fault of the file itself is still the file's."""
    path = tmp_path / "program.toml"
    path.write_text(PROGRAM)
    with pytest.raises(UsageError) as refused:
        load_scenario(path, "walk")
    assert refused.value.what == (
        '--plan walk: a workload of kind "command" has no rounds to walk; leave --plan out'
    )
    assert refused.value.remedy == f"edgebench run {path}"
    path.write_text(PROGRAM.replace('memory = "64M"', 'memory = "64M"\nplan = "walk"'))
    with pytest.raises(ScenarioError, match=r"the file: .*leave plan out"):
        load_scenario(path)
    assert load_scenario(path, "grid").limits.plan == "grid"


def test_every_flag_stands_for_a_key_of_some_scenario() -> None:
    """A key that is renamed in scenarios can't be forgotten here."""
    tables = {"limits": Scenario.model_fields["limits"].annotation}
    known = {*Scenario.model_fields, *(i.alias for i in Scenario.model_fields.values())}
    known |= {f"limits.{key}" for key in tables["limits"].model_fields}  # type: ignore[union-attr]
    workloads = Scenario.model_fields["workload"].annotation
    kinds = [kind.__origin__ for kind in workloads.__args__]  # type: ignore[union-attr]
    known |= {f"workload.{key}" for kind in kinds for key in kind.model_fields}
    known |= {f"workload.{i.alias}" for kind in kinds for i in kind.model_fields.values()}
    assert set(FLAGS) <= known
