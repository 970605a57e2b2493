"""A refused flag is named as it is typed, not as a key of a scenario that nobody wrote."""

from __future__ import annotations

import pytest

from edgebench.errors import UsageError
from edgebench.scenario.flags import TYPED
from edgebench.scenario.new_scenario import layer_scenario
from edgebench.scenario.scenario import Scenario


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
